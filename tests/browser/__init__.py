"""Mission Control in a real headless Chromium, against a real engine.

chromium     finds a browser, or brings one into the virtual environment
shop         the app whose jobs are looked at, with handlers that wait until a test lets them go
stage        a store with a worker and a web server in front of it
filling      a store with something of everything in it, hostile text included
watching     notes what goes wrong in a page
survey       one walk through every page; axe asks axe-core about each
shots        the pictures of the documentation, made by hand: python -m tests.browser.shots
"""
