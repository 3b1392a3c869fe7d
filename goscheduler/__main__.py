"""``python -m goscheduler``: the same as the command ``goscheduler``."""

from goscheduler.cli import main

if __name__ == "__main__":
    main()
