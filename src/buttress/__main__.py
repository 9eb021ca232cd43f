"""python -m buttress: the command line, where its script is not on the path."""

from buttress.cli import main

if __name__ == "__main__":
    main()
