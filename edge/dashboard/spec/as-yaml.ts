// A file of its own, loaded when it is first shown: the package is larger than the form.
export { stringify } from "yaml";
