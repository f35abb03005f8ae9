"""The rooms between the network and the service: server, guard, logins, answers."""
