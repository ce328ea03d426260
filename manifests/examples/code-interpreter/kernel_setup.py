"""Runs in each Python kernel before its first code: tables and charts come as data too, and variables can be lent."""


def _set_up():
    import os
    import sys

    import orjson
    from IPython import get_ipython
    from IPython.core.formatters import BaseFormatter, JSONFormatter
    from traitlets import ObjectName, Unicode

    shell = get_ipython()
    lent = {}

    def set_variables(env):
        lent.update({name: os.environ.get(name) for name in env if name not in lent})
        os.environ.update(env)

    def unset_variables():
        while lent:
            name, value = lent.popitem()
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def plain(value):
        """Returns the same in types of JSON; of NaN and infinity, None."""
        options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
        return orjson.loads(orjson.dumps(value, option=options, default=as_text))

    def as_text(value):
        if hasattr(value, "isoformat"):
            return value.isoformat()
        raise TypeError(f"{type(value).__name__} is not JSON")

    class Data(BaseFormatter):
        """A table of pandas, by columns."""

        format_type = Unicode("e2b/data")
        print_method = ObjectName("_repr_e2b_data_")
        _return_type = (dict, str)

        def __call__(self, value):
            pandas = sys.modules.get("pandas")
            if pandas is None or not isinstance(value, pandas.DataFrame):
                return super().__call__(value)
            try:
                return plain(value.to_dict(orient="list"))
            except TypeError:
                return None

    class Chart(BaseFormatter):
        """What a figure of matplotlib shows, as numbers and labels."""

        format_type = Unicode("e2b/chart")
        print_method = ObjectName("_repr_e2b_chart_")
        _return_type = (dict, str)

        def __call__(self, value):
            figures = sys.modules.get("matplotlib.figure")
            if figures is None or not isinstance(value, figures.Figure):
                return super().__call__(value)
            from e2b_charts import chart_figure_to_dict

            try:
                return plain(chart_figure_to_dict(value))
            except Exception:
                return None

    class Json(JSONFormatter):
        def __call__(self, value):
            if not isinstance(value, (list, dict)):
                return super().__call__(value)
            try:
                return plain(value), {"expanded": True}
            except TypeError:
                return super().__call__(value)

    shell.set_variables = set_variables
    shell.unset_variables = unset_variables
    shell.colors = "nocolor"
    for formatter in (Data, Chart):
        made = formatter(parent=shell.display_formatter)
        shell.display_formatter.formatters[made.format_type] = made
    shell.display_formatter.formatters["application/json"] = Json(parent=shell.display_formatter)


_set_up()
del _set_up
