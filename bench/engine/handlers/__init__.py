"""`python -m bench engine handlers`: plain handlers beside `async def` ones."""
