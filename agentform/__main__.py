"""`python -m agentform` is the command line."""

from agentform.cli.app import main

if __name__ == "__main__":
    main()
