#!/bin/sh
# ptb-tui: run 1785570000
export HOME=/home/op
export NOTE='two words'
exec /shared/tools/python3 -I /shared/results/_ptb/bundles/ab12/ptb step 'it'"'"'s' 'a "b" $HOME 100% *'
