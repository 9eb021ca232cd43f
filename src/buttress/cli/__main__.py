"""``python -m buttress.cli`` is the command."""

from buttress.cli import main

if __name__ == "__main__":
    main()
