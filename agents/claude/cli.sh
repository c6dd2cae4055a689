# Read by every solve.sh that starts a CLI.

die() { # die STATUS WORDS: one line for the operator, then the end
    echo "agent: $2" >&2
    exit "$1"
}

need() { # need COMMAND PACKAGE: end with 127 where the CLI is not installed, else record its version (H §2.3)
    local path version
    path=$(type -P "$1") || die 127 "the command $1 is not installed in this image"
    version=$(timeout 60 "$1" --version </dev/null 2>&1) || version="<version lookup failed>"
    version=${version:0:500}
    {
        echo "binary: $1"
        echo "package: $2"
        echo "path: $path"
        echo "version: ${version//$'\n'/ }"
        echo "update: skipped"
        echo "recorded_at: $(date -Iseconds)"
    } >"$HOME/cli_version.txt"
}

need_login() { # need_login FILE COMMAND: end with 1 where the login file is missing or empty
    [ -s "$1" ] || die 1 "no login in $1; it comes from \`$2\`, run where you have a browser"
}
