"""`python -m wordpipe` is `wordpipe`."""

from wordpipe.cli import main

if __name__ == "__main__":
    main()
