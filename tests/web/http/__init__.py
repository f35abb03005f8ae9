"""What stands between the network and the service: the server, the guard, roles, limits."""
