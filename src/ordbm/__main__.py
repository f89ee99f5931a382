"""`ordbm` and `python -m ordbm`: the command line."""

from ordbm.runtime.interruption import listen_from_now_on


def run() -> None:
    """Run the command line; Ctrl-C is heard before anything large is imported."""
    listen_from_now_on()
    from ordbm.cli import main  # noqa: PLC0415

    main()


if __name__ == "__main__":
    run()
