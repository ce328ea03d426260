"""What Python's SDK gets of a code interpreter. Arguments: the address of its sandbox, the sandbox's id, its token."""
import base64
import sys

from e2b import ConnectionConfig, NotFoundException, SandboxException, TimeoutException
from e2b_code_interpreter import Sandbox
from packaging.version import Version

url, sandbox_id, token = sys.argv[1:]
config = ConnectionConfig(api_key="none", sandbox_url=url)
sandbox = Sandbox(
    sandbox_id=sandbox_id,
    envd_version=Version("0.6.1"),
    envd_access_token=token,
    sandbox_domain=None,
    connection_config=config,
    traffic_access_token=token,
)

printed = []
execution = sandbox.run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\nn = 41", on_stdout=printed.append)
assert execution.logs.stdout == ["out\n"] and execution.logs.stderr == ["err\n"], execution
assert [message.line for message in printed] == ["out\n"] and printed[0].timestamp > 10**18, printed
assert sandbox.run_code("n + 1").text == "42"

execution = sandbox.run_code(
    "import pandas as pd\npd.DataFrame({'a': [1, None], 'day': pd.to_datetime(['2026-11-30'] * 2)})"
)
[table] = execution.results
assert table.data == {"a": [1.0, None], "day": ["2026-11-30T00:00:00"] * 2} and "<table" in table.html, table.data

execution = sandbox.run_code(
    "import matplotlib.pyplot as plt\nplt.bar(['x', 'y'], [1, 2])\nplt.title('two bars')\nplt.show()\n'shown'"
)
plot, main = execution.results
assert base64.b64decode(plot.png).startswith(b"\x89PNG") and not plot.is_main_result
assert plot.chart.title == "two bars" and [float(bar.value) for bar in plot.chart.elements] == [1, 2], plot.chart.to_dict()
assert execution.text == main.text == "shown"

execution = sandbox.run_code("class Own:\n    def _repr_mimebundle_(self, **_):\n        return {'a/b': 'c'}\nOwn()")
assert execution.results[0].extra == {"a/b": "c"}, execution.results[0].extra

context = sandbox.create_code_context(cwd="/", language="bash")
code = "pwd; echo \"$WHO\"; exit_with() { return $1; }; exit_with 3"
execution = sandbox.run_code(code, context=context, envs={"WHO": "it's\nme"})
assert "".join(execution.logs.stdout) == "/\nit's\nme\n" and execution.error.value == "3", execution
assert sandbox.run_code("echo \"${WHO-gone}\"", context=context).logs.stdout == ["gone\n"]
try:
    sandbox.run_code("while true; do sleep 1; done", context=context, timeout=2)
    raise AssertionError("not timed out")
except TimeoutException:
    pass
assert sandbox.run_code("echo goes on", context=context).logs.stdout == ["goes on\n"]
sandbox.run_code("exit 3", context=context)
assert sandbox.run_code("echo a new shell", context=context).logs.stdout == ["a new shell\n"]
assert context.id in [one.id for one in sandbox.list_code_contexts()]
sandbox.remove_code_context(context)
try:
    sandbox.run_code("true", context=context)
    raise AssertionError("found")
except NotFoundException as error:
    assert f"Context {context.id} not found" in str(error)
try:
    sandbox.run_code("1", language="cobol")
    raise AssertionError("run")
except SandboxException as error:
    assert "Cannot run cobol: this image has kernels for bash, python" in str(error)
