# Read by every solve.sh that starts a CLI.

die() { # die STATUS WORDS: one line for the operator, then the end
    echo "agent: $2" >&2
    exit "$1"
}

wanted_update() { # whether the operator did not say no to updates (H §2.3)
    [[ ! ${POST_TRAIN_BENCH_SKIP_CLI_UPDATE-} =~ ^(1|[Tt][Rr][Uu][Ee]|[Yy][Ee][Ss]|[Oo][Nn])$ ]]
}

update_cli() { # update_cli COMMAND PACKAGE: what the original does at an agent's start; sets `update` and `wanted`
    local pin=${1^^} said
    pin=${pin//-/_}_CLI_VERSION
    wanted=${!pin-}
    if [ -n "${PTB_CLI_INSTALLER-}" ]; then # has no versions, and is run only where the command is missing
        type -P "$1" >/dev/null && return
        echo "[update_cli] running the installer of $1" >&2
        said=$(curl -fsSL "$PTB_CLI_INSTALLER") || die 1 "the installer of $1 cannot be fetched"
        timeout 300 bash <<<"$said" >&2 || die 1 "the installer of $1 failed"
        update=success
    elif [ -n "$wanted" ] || wanted_update; then
        echo "[update_cli] installing $2@${wanted:-latest}" >&2
        update=success
        said=$(timeout 300 npm install -g --prefix "$HOME/.local" --no-fund --no-audit "$2@${wanted:-latest}" 2>&1) ||
            update=failed
        if [ "$update" = failed ]; then
            tail -n 4 <<<"$said" | sed 's/^/[update_cli] /' >&2
            [ -z "$wanted" ] || die 1 "$2 $wanted cannot be installed"
        fi
    fi
    hash -r
}

need() { # need COMMAND PACKAGE: end with 127 where the CLI is not installed, else record its version (H §2.3)
    local path version update=skipped wanted=
    [ "${PTB_CLI_UPDATES-}" != at-start ] || update_cli "$1" "$2"
    path=$(type -P "$1") || die 127 "the command $1 is not installed in this image"
    version=$(timeout 60 "$1" --version </dev/null 2>&1) || version="<version lookup failed>"
    version=${version:0:500}
    {
        echo "binary: $1"
        echo "package: $2"
        echo "path: $path"
        echo "version: ${version//$'\n'/ }"
        echo "update: $update"
        echo "recorded_at: $(date -Iseconds)"
        [ -z "$wanted" ] || echo "requested_version: $wanted"
        [ -z "${PTB_CLI_STORE-}" ] || echo "store: $PTB_CLI_STORE"
    } >"$HOME/cli_version.txt"
    unset "${!PTB_CLI_@}"
}

need_login() { # need_login FILE COMMAND: end with 1 where the login file is missing or empty
    [ -s "$1" ] || die 1 "no login in $1; it comes from \`$2\`, run where you have a browser"
}
