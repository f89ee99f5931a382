"""A model behind HTTP, with the ratings that came since in a database. Needs the extra `serve`."""
