"""The run without a result: a scripted agent that looks around, gives up and ends normally."""

import sys

from stream import Session


def main() -> int:
    """Play the session; leaves no model and ends with 0."""
    session = Session("scripted-quitter", "00000000-0000-4000-8000-000000000003")
    session.say("I will have a look at the task first.")
    session.bash("ls", "List the working directory")
    session.bash("bash timer.sh", "See how much time is left")
    session.say("I would need more time for this than I want to spend, so I stop here.")
    session.end("Nothing was trained, there is no final_model.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
