"""`python -m meterline.runtime` is the command line."""

from meterline.runtime.cli import main

if __name__ == "__main__":
    main()
