"""ordbm in the shape that other libraries expect; each module needs the one it is named after."""
