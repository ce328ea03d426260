-- Health of the four kinds of tenancy.dev in Argo CD: docs/how-to/use-gitops.md.
local health = { status = "Progressing", message = "waits for the operator or the gateway to look at it" }
if obj.metadata.deletionTimestamp ~= nil then
  health.message = "is being deleted"
elseif obj.status ~= nil and obj.status.observedGeneration == obj.metadata.generation then
  for _, condition in ipairs(obj.status.conditions or {}) do
    if condition.status == "True" and condition.type == "Stalled" then
      return { status = "Degraded", message = condition.message }
    end
    if condition.type == "Ready" then
      health.message = condition.message
      if condition.status == "True" then
        health.status = "Healthy"
      end
    end
  end
end
return health
