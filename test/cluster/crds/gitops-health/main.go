// Judges Kubernetes objects as GitOps tools do: Flux by kstatus, Argo CD by a script in the Lua of its VM. Reads the
// script, which its argument names, and a list of objects from stdin, as `kubectl get -o json` writes it; writes a JSON
// array with a verdict on each.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type verdict struct {
	Flux    string `json:"flux"`
	Argo    string `json:"argo"`
	Message string `json:"message"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	script, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	var list unstructured.UnstructuredList
	if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
		return err
	}
	verdicts := []verdict{}
	for _, object := range list.Items {
		flux, err := status.Compute(&object)
		if err != nil {
			return err
		}
		argo, message, err := evaluate(string(script), object.Object)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, verdict{Flux: flux.Status.String(), Argo: argo, Message: message})
	}
	return json.NewEncoder(os.Stdout).Encode(verdicts)
}

// evaluate runs the script on one object, with the libraries that Argo CD opens by default.
func evaluate(script string, object map[string]any) (string, string, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		return "", "", err
	}
	health, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return "", "", fmt.Errorf("the script returned no table but %s", state.Get(-1).Type())
	}
	return health.RawGetString("status").String(), health.RawGetString("message").String(), nil
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(toLua(state, item))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	default:
		return lua.LNil
	}
}
