#!/bin/sh
# Prints the transport variables of one process, for a ticket: names of the catalogue (docs/variables.md) and no others, so
# that no token or key leaves with them. Made from the code by `just docs`; edits here are lost.
#
#   kubectl exec -i POD -- sh -s <paste-env.sh
#   kubectl exec -i POD -- sh -s 17 <paste-env.sh     where the worker is process 17 and not 1
#
# Judge what it prints: dynamo-interconnect-check node --input env=FILE
names="
@NAMES@
"
process=${1:-1}
environ=/proc/$process/environ
if ! true <"$environ"; then
    echo "$environ cannot be read: run this as the user of process $process" >&2
    exit 1
fi
echo "# catalogued variables of process $process"
# shellcheck disable=SC2086  # the lines of names become one
set -- $names
names=" $* "
# A value may have several lines, and none of them is a variable.
tr '\n\0' ' \n' <"$environ" | while IFS= read -r line; do
    name=${line%%=*}
    case $names in *" $name "*) ;; *) continue ;; esac
    # What may carry a credential is named and not shown.
    case ${line#*=} in
    *@* | *[Kk][Ee][Yy]* | *[Tt][Oo][Kk][Ee][Nn]* | *[Ss][Ee][Cc][Rr][Ee][Tt]* | *[Pp][Aa][Ss][Ss]* | *[Cc][Rr][Ee][Dd]* | *[Aa][Uu][Tt][Hh]*)
        echo "# withheld $name"
        ;;
    *) printf '%s\n' "$line" ;;
    esac
done
