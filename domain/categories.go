package domain

// Categories lists every category there is: what the event store can decode.
var Categories = []AnyCategory{Operators, Agents, Registries, Grants, Approvals, Boards, Requests, Hires, Webhooks}
