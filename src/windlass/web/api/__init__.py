"""The JSON API: a table of endpoints, from which routing, decoding, errors and the OpenAPI document are made.

endpoint    what an endpoint is, and how its request is read
routing     from method and path to an endpoint, and its answer
jobs, bulk, queues, parents, groups, schedules, budgets, overview    the endpoints, by subject
openapi     the document                      stream     server-sent events
"""
