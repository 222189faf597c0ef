"""`python -m agentform` is the command line."""

from agentform.cli import main

if __name__ == "__main__":
    main()
