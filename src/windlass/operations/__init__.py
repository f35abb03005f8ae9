"""Every operator action and every view of the store, each one once.

An operation is a function of a subject: typed, with its role, its words and its audit text. The API's routes
and OpenAPI document, the commands and the forms of Mission Control are derived from its signature; handles
and Django's admin call the same functions, or the act inside where an answer needs no view.

    @budgets.post("/budgets/{name}/drain")
    async def drain_budget(ops: Ops, name: Name, pause: Pause = 0.0) -> BudgetView:
        '''Remove all tokens of a budget, and grant none for a while'''
        await find(ops, name)
        await ops.store.drain(name, pause)
        ops.did(f"budget {name}: drained", said=f"{name} is drained")
        return await find(ops, name)

That is `POST /api/budgets/{name}/drain`, `windlass budget drain NAME --pause 30s` and the form "Drain…".

`operation` holds what all of them share. Each other module is a subject: its views, and its operations.
"""
