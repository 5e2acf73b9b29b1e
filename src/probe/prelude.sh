# Read-only probe of dynamo-interconnect-check, for any POSIX sh (dash, busybox, bash).
# It reads files under /proc, /sys, /dev and /etc and runs the tools named below; it writes no file and changes nothing.
# Everything stands in one function that the last line calls: a script that arrives cut off runs nothing.
__dic_main() {
ROOT=@ROOT@
NONCE=@NONCE@
DEADLINE=@DEADLINE@
# Only variables of these exact names leave the container.
NAMES='@NAMES@'
# How they begin: hundreds of names are too much for grep to begin with.
BEGIN='@PREFIXES@'
LC_ALL=C; export LC_ALL
# An exec has the environment of the container. These make a tool write files, and would truncate the log of the worker;
# UCX takes the first from ucx.conf too, so it is set to nothing instead of unset. The worker's own are read from /proc.
UCX_LOG_FILE=; export UCX_LOG_FILE
unset UCX_STATS_DEST UCX_STATS_TRIGGER UCX_PROFILE_MODE UCX_PROFILE_FILE UCX_PROTO_INFO_DIR NCCL_DEBUG_FILE \
  FI_LOG_PROV_FILE MLX4_DEBUG_FILE MLX5_DEBUG_FILE LD_DEBUG LD_DEBUG_OUTPUT LD_PROFILE
IFS=' 	
'
set +e +u +f
PATH="${PATH:-/usr/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PATH="$PATH:/usr/local/nvidia/bin:/opt/amazon/efa/bin:/usr/local/ucx/bin:/opt/hpcx/ucx/bin:/opt/mellanox/iproute2/sbin"
case $ROOT in /*) ROOT=$(cd -P "$ROOT" && pwd) || exit 0 ;; esac
cd "${ROOT:-/}"
tool_group= watchdog= ticks=0 ticked= secs=0 broken= site_dirs= workers= worker= worker_name= environ= variables= command_line=
laid_over= laid_by= engine_file=
home=${HOME:-/root} virtual_env= python_path= ucx_config_dir= nccl_conf_file= nixl_plugin_dir=

# --- Frames. An answer stands between two lines that begin with the nonce, which no file or tool can know. ---
begin() { ask=$1 room=$2 full=; printf '%s begin %s\n' "$NONCE" "$ask"; }
end() {
  [ -z "$full" ] || [ "$1" != ok ] || set -- cut
  printf '\n%s end %s %s\n' "$NONCE" "$ask" "$*"
}
# Begins an answer if its place is there: what is missing in a readable place is absent, which is an answer.
at() {
  begin "$1" "$2"
  [ ! -d "$ROOT$3" ] || [ -x "$ROOT$3" ] || { end denied "$3"; return 1; }
  [ -d "$ROOT$3" ] || { end absent "$3"; return 1; }
}
leave_out() { begin "$1" 0; shift; end "$@"; }

# --- Printing, bounded. ---
put() {
  [ -z "$full" ] || return 0
  room=$((room - ${#1} - 1))
  if [ "$room" -lt 0 ]; then full=1; else printf '%s\n' "$1"; fi
}
# First line of a file into $v. Fails where there is none; sysfs answers EINVAL for empty slots.
first() { v=; IFS= read -r v 2>/dev/null <"$1"; [ -n "$v" ]; }
# Every line of each file as "path: line". What is not there or cannot be read is left out.
values() {
  for f do
    [ -f "$f" ] && [ -r "$f" ] || continue
    { while IFS= read -r v || [ -n "$v" ]; do put "${f#"$ROOT"}: $v"; done; } 2>/dev/null <"$f"
  done
}
# The named files of each directory below the root: fields 'state rate' DIR...
fields() { first_lines $(name_files "$@"); }
# A format is used again for each name: joining hundreds of names one by one takes longer than reading the files.
name_files() {
  names=$1; shift
  for d do case $d in *%*) ;; *) printf "$d/%s " $names ;; esac; done
}
# First line of each of these files below the root that has one, by one grep where there are many: opening hundreds in the
# shell takes much longer. Its "sys/name:value" is known by the slash that is not there.
first_lines() {
  if [ "$#" -gt 40 ] && has grep; then grep -Hsam 1 . "$@" 2>/dev/null </dev/null; return; fi
  for f do
    [ -f "$f" ] || continue
    # As `first`, in fewer steps.
    v=; IFS= read -r v <"$f"
    [ -z "$v" ] || put "/$f: $v"
  done 2>/dev/null
}
entries() {
  for f do [ ! -e "$f" ] && [ ! -L "$f" ] || put "${f##*/}"; done
}
paths() {
  for f do [ ! -e "$f" ] || put "${f#"$ROOT"}"; done
}
# "path: type access", with the letters r and w of access(2), or - for none.
nodes() {
  for f do
    [ -e "$f" ] || continue
    if [ -c "$f" ]; then t=char; elif [ -d "$f" ]; then t=dir; elif [ -b "$f" ]; then t=block; else t=file; fi
    a=; [ ! -r "$f" ] || a=r; [ ! -w "$f" ] || a=${a}w
    put "${f#"$ROOT"}: $t ${a:--}"
  done
}
text() { # id cap file
  begin "$1" "$2"
  if [ ! -e "$ROOT$3" ]; then end absent "$3"; return; fi
  if [ ! -r "$ROOT$3" ]; then end denied "$3"; return; fi
  { while IFS= read -r v || [ -n "$v" ]; do put "$v"; done; } 2>/dev/null <"$ROOT$3"
  end ok
}
# Lines of a file that match, chosen here, so that the others stay in the container.
lines() { # id cap file expression
  begin "$1" "$2"
  if [ ! -e "$ROOT$3" ]; then end absent "$3"; return; fi
  if [ ! -r "$ROOT$3" ]; then end denied "$3"; return; fi
  if ! has grep; then end no-tool grep; return; fi
  grep -aE "$4" "$ROOT$3" 2>/dev/null </dev/null
  end ok
}
# Is the first of these files there and open to us?
readable() { [ -r "$1" ]; }
has() { command -v "$1" >/dev/null 2>&1; }
if has head; then LIMIT='head -c '; else LIMIT='dd bs=1 count='; fi
# User and password of a URL stay here. Of a list of URLs the hosts before the last password go with them.
clean() { case $v in *://*@*) v=${v%%://*}://${v##*@} ;; esac; }

# --- Tools. Each runs in a process group of its own, which is killed as a whole when its time is over. The watchdog below
# ticks once a second; a timer for each tool would cost two processes more. Ticks are heard only while a tool is waited for:
# elsewhere they would interrupt what is being printed. ---
if has setsid; then group=setsid; elif has timeout; then group='timeout 60'; else group=; fi
kill_group() {
  if [ -n "$group" ]; then kill -KILL "-$1" 2>/dev/null; else kill_tree "$1"; fi
}
# Without setsid and timeout there are no groups: children are found through their parent, which is stopped first, so
# that it neither starts more nor goes on when they end.
kill_tree() {
  kill -STOP "$1" 2>/dev/null
  for s in /proc/[0-9]*/stat; do
    IFS= read -r v 2>/dev/null <"$s" || continue
    rest=${v##*) }; rest=${rest#* }
    [ "${rest%% *}" != "$1" ] || (kill_tree "${v%% *}")
  done
  kill -KILL "$1" 2>/dev/null
}
tool() { # id cap seconds filter program arguments...
  # One byte more than the limit, so that the reader sees that there was more.
  begin "$1" "$2"; cap=$(($2 + 1)) secs=$3 filter=$4; shift 4
  has "$1" || { end no-tool "$1"; return; }
  # Tools that ask the kernel and nobody else need no timer of their own.
  if [ "$secs" = 0 ]; then __DIC_TOOL=$mark "$@" 2>&1 </dev/null; end ok; return; fi
  case " $broken " in *" $1 "*) end timeout "$secs" "$1" hung before; return ;; esac
  # What a filter reads is bounded too: it may print nothing of a flood.
  [ -z "$filter" ] || filter="| ${LIMIT}4194304 2>/dev/null $filter"
  ticks=0 ticked=; trap tick USR1
  __DIC_TOOL=$mark $group sh -c "{ \"\$@\" 2>&1 || printf '\\n[exit %s]\\n' \$?; } $filter | $LIMIT$cap 2>/dev/null" sh "$@" \
    </dev/null 2>/dev/null &
  tool_group=$!
  # A tick ends the waiting, too.
  wait "$tool_group"; code=$?
  while [ -n "$ticked" ] && [ "$code" -gt 128 ]; do
    ticked=; wait "$tool_group"; a=$?
    [ "$a" = 127 ] || code=$a
  done
  trap '' USR1
  # What the tool left in its group goes with it.
  [ -z "$group" ] || kill_group "$tool_group"
  if [ "$code" -gt 128 ]; then broken="$broken $1"; end timeout "$secs" "$*"; else end ok; fi
  tool_group=
}
tick() {
  ticked=1 ticks=$((ticks + 1))
  [ "$ticks" -le "$secs" ] || [ -z "$tool_group" ] || kill_group "$tool_group"
}
# The process group of a process, into $v.
group_of() { IFS= read -r v <"/proc/$1/stat"; v=${v##*) }; v=${v#* * }; v=${v%% *}; }
# What a tool left when the shell of this script was killed: known by a mark in the environment, and ended with its group.
sweep() {
  v=; group_of self; own_group=$v
  for s in /proc/[0-9]*/environ; do
    { while IFS= read -r v || [ -n "$v" ]; do
      case $v in
        *__DIC_TOOL="$mark"*)
          p=${s%/environ}; p=${p#/proc/}
          group_of "$p"
          # Tools without a timer are in our own group.
          [ -z "$group" ] || [ "$v" = "$own_group" ] || kill -KILL "-$v"
          kill -KILL "$p"
          break ;;
      esac
    done; } 2>/dev/null <"$s"
  done
}
# Is the shell of this script still there, and the one who started it? Asked by the watchdog, once a second.
alive() {
  [ -n "$starter" ] || return 0
  mine || return 1
  read -r a b c parent rest 2>/dev/null <"/proc/$$/stat" && [ "$parent" = "$starter" ]
}
stop() {
  trap '' TERM HUP INT PIPE USR1
  [ -z "$tool_group" ] || kill_group "$tool_group"
  kill $watchdog 2>/dev/null
  printf '\n%s stopped\n' "$NONCE" 2>/dev/null
  exit 0
}
trap stop TERM HUP INT PIPE
trap '' USR1
# Where /proc is not that of our own processes the question cannot be asked.
a= starter=
read -r a b c starter rest 2>/dev/null </proc/self/stat
[ "$a" = "$$" ] || starter=
mark=$$-$starter-
# Is it still our own shell that has its number?
mine() {
  [ -n "$starter" ] || return 0
  read -r a b c parent rest 2>/dev/null </proc/self/stat
  [ "$parent" = "$$" ]
}
# The deadline inside the container: what exec started outlives a client that goes away.
(
  trap 'kill $! 2>/dev/null; exit 0' TERM
  n=0
  while [ "$n" -lt "$DEADLINE" ] && alive; do
    sleep 1 & wait $!
    n=$((n + 1))
    mine && kill -USR1 "$$"
  done
  mine || { sweep; exit 0; }
  kill -TERM "$$"; sleep 1 & wait $!
  # It may wait for a tool that has no timer.
  ! mine || { kill -KILL "$$"; sweep; }
) >/dev/null 2>&1 </dev/null &
watchdog=$!

# --- Reads that need more than one line. ---
# Where a directory link leads, into $v; no process is started for it.
real() { v=; [ -d "$1" ] && cd -P "$1" 2>/dev/null && v=${PWD#"$ROOT"}; cd "${ROOT:-/}"; [ -n "$v" ]; }
pci_of_rdma() {
  for d in "$ROOT"/sys/class/infiniband/*; do
    real "$d/device" || continue
    put "${d#"$ROOT"}/device: $v"
    ! real "$d/device/driver" || put "${d#"$ROOT"}/device/driver: ${v##*/}"
  done
}
pci_of_gpus() {
  set --
  for g in proc/driver/nvidia/gpus/*; do
    d=sys/bus/pci/devices/${g##*/}
    ! real "$d" || put "/$d: $v"
    set -- "$@" "$d"
  done
  fields 'numa_node iommu_group/type' "$@"
}
# There may be a thousand slots on one port. Empty ones answer EINVAL and cost one read; only of the others more is read.
gids() {
  set --
  for p in sys/class/infiniband/*/ports/*; do
    if [ -d "$p/gid_attrs/types" ]; then set -- "$@" "$p"/gid_attrs/types/*
    else
      for f in "$p"/gids/*; do
        first "$f" || continue
        case $v in *[1-9a-f]*) put "/$f: $v" ;; esac
      done
    fi
  done
  [ "$#" -gt 0 ] || return
  files=
  if has grep; then
    found=$(grep -Hsam 1 . "$@" 2>/dev/null </dev/null)
    [ -z "$found" ] || printf '%s\n' "$found"
    each_line "$found" gid
  else
    for f do
      first "$f" || continue
      put "/$f: $v"
      gid "$f"
    done
  fi
  first_lines $files
}
gid() {
  f=${1%%:*} v=${1%%/gid_attrs/*}
  files="$files $v/gids/${f##*/} $v/gid_attrs/ndevs/${f##*/}"
}
# Opens the nodes as a library would, which has no effect on the device, and says what the kernel answered.
open_nodes() {
  for f do
    [ -e "$f" ] || continue
    [ -c "$f" ] || [ -n "$ROOT" ] || continue
    if true 2>/dev/null <>"$f"; then v=open; else
      v=$( { true <>"$f"; } 2>&1)
      case $v in
        *'not permitted'*) v=EPERM ;;
        *'ermission denied'*) v=EACCES ;;
        *'o such device'*) v=ENODEV ;;
        *) v=failed ;;
      esac
    fi
    put "${f##*/}: $v"
  done
}
module_versions() {
  for n do
    [ -d "$ROOT/sys/module/$n" ] || continue
    if first "$ROOT/sys/module/$n/version"; then put "/sys/module/$n/version: $v"; else put "/sys/module/$n: present"; fi
  done
}
# Words of the kernel's command line that decide about the IOMMU; the others stay here.
iommu_words() {
  first "$ROOT/proc/cmdline" || return
  set -f
  for v in $v; do
    case $v in iommu=* | intel_iommu=* | amd_iommu=* | iommu.passthrough=*) put "$v" ;; esac
  done
  set +f
}
first_cpu() {
  while IFS= read -r v; do
    case $v in
      '') break ;;
      vendor_id* | 'model name'* | 'CPU implementer'* | 'CPU part'*) put "$v" ;;
      flags*) case " $v " in *' hypervisor '*) put 'hypervisor: yes' ;; *) put 'hypervisor: no' ;; esac ;;
    esac
  done 2>/dev/null <"$ROOT/proc/cpuinfo"
}

# --- The worker. Command lines are matched here and stay here; a fixed word is all that leaves. ---
find_workers() {
  has grep || return
  set -- "$ROOT"/proc/[0-9]*/cmdline
  found=$(grep -lzE '^(dynamo\.(vllm|sglang|trtllm)(\..*)?|(.*/)?vllm|vllm\.entrypoints\..*|sglang\.launch_server|(.*/)?trtllm-(serve|llmapi-launch)|tensorrt_llm\..*|VLLM::.*|sglang::.*)$' "$@" 2>/dev/null </dev/null)
  # A small busybox knows no -z. Without the NUL between them the words of a command line stand side by side.
  if [ $? -gt 1 ] && [ -z "$found" ]; then
    for f do
      first "$f" || continue
      case $v in
        *-mdynamo.vllm* | *-mdynamo.sglang* | *-mdynamo.trtllm* | *-mvllm.entrypoints.* | *vllmserve* | VLLM::* | sglang::* | \
          *-msglang.launch_server* | *trtllm-serve* | *trtllm-llmapi-launch*) found="$found $f" ;;
      esac
    done
  fi
  for f in $found; do
    p=${f%/cmdline}; p=${p##*/}
    IFS= read -r v 2>/dev/null <"$f"
    case $v in
      *dynamo.vllm*) w=dynamo.vllm r=1 ;;
      *dynamo.sglang*) w=dynamo.sglang r=1 ;;
      *dynamo.trtllm*) w=dynamo.trtllm r=1 ;;
      VLLM::*) w=vllm-engine r=3 ;;
      sglang::*) w=sglang-engine r=3 ;;
      *sglang.launch_server*) w=sglang r=2 ;;
      *trtllm* | *tensorrt_llm*) w=trtllm r=2 ;;
      *) w=vllm r=2 ;;
    esac
    workers="$workers $r:$p:$w"
  done
  # The lowest number of the best kind is the one that was started with the environment of the container.
  best=9 lowest=
  for x in $workers; do
    r=${x%%:*} p=${x#*:}; p=${p%%:*}
    if [ "$r" -lt "$best" ] || { [ "$r" = "$best" ] && [ "$p" -lt "$lowest" ]; }; then
      best=$r lowest=$p worker=$p worker_name=${x##*:}
    fi
  done
  if [ -n "$worker" ]; then f=$ROOT/proc/$worker/environ
  elif [ -n "$ROOT" ]; then f=$ROOT/proc/self/environ
  else f=/proc/$$/environ; fi
  environ=$f
  # A line for each word.
  if [ -n "$worker" ] && has tr; then
    command_line=$(tr '\0\n' '\n ' 2>/dev/null <"$ROOT/proc/$worker/cmdline")
  fi
  [ -r "$f" ] && true 2>/dev/null <"$f" && has tr || return
  # NUL-separated; a line break within a value becomes \001, so that it cannot make a variable of its own.
  variables=$(tr '\0\n' '\n\001' 2>/dev/null <"$f" | grep -aE "^($BEGIN|HOME=|VIRTUAL_ENV=|PYTHONPATH=|UCX_CONFIG_DIR=|NCCL_CONF_FILE=|DYN_TRTLLM_(OVERRIDE|EXTRA)_ENGINE_ARGS=)")
  each_line "$variables" hint
}
# Where the worker's settings and packages are. Used here only.
hint() {
  case $1 in
    HOME=*) home=${1#*=} ;;
    VIRTUAL_ENV=*) virtual_env=${1#*=} ;;
    PYTHONPATH=*) python_path=${1#*=} ;;
    UCX_CONFIG_DIR=*) ucx_config_dir=${1#*=} ;;
    NCCL_CONF_FILE=*) nccl_conf_file=${1#*=} ;;
    NIXL_PLUGIN_DIR=*) nixl_plugin_dir=${1#*=} ;;
    DYN_TRTLLM_OVERRIDE_ENGINE_ARGS=*) laid_over=${1#*=} ;;
    DYN_TRTLLM_EXTRA_ENGINE_ARGS=*) engine_file=${1#*=} ;;
  esac
}
# Calls a function with every line of a text.
each_line() {
  IFS='
'
  set -f; set -- "$2" $1; set +f
  IFS=' 	
'
  what=$1; shift
  for line do "$what" "$line"; done
}
list_workers() {
  for x in $workers; do x=${x#*:}; put "${x%%:*}: ${x#*:}"; done
}
environment() { # id cap
  begin "$1" "$2"
  for n in grep tr; do has "$n" || { end no-tool "$n"; return; }; done
  if [ ! -r "$environ" ] || ! true 2>/dev/null <"$environ"; then end denied "${environ#"$ROOT"}"; return; fi
  put "# process ${worker:-self} ${worker_name:-probe}"
  each_line "$variables" variable
  end ok
}
# Only catalogued names leave.
variable() {
  case "|$NAMES|" in *"|${1%%=*}|"*) v=$1; clean; put "$v" ;; esac
}
# The environment that the container gives whatever is started in it: of its image and its pod spec, and not of a start
# script. Without a fork: the shell has it. Log destinations were taken out above.
container_environment() { # id cap
  begin "$1" "$2"
  [ -z "$worker" ] && { end no-worker; return; }
  IFS='|'; set -f
  for n in $NAMES; do
    case $n in UCX_LOG_FILE) continue ;; esac
    eval "v=\${$n-\$NONCE}"
    [ "$v" != "$NONCE" ] || continue
    case $v in *'
'*)
      # JSON means the same on one line.
      case $v in '{'* | '['*) v=$(printf %s "$v" | tr '\n' ' ' 2>/dev/null); v=${v% } ;; *) v= ;; esac
      v=${v:-'(several lines)'} ;;
    esac
    clean; put "$n=$v"
  done
  set +f; IFS=' 	
'
  end ok
}
worker_libraries() { # id cap
  begin "$1" "$2"
  [ -n "$worker" ] || { end no-worker; return; }
  has sed || { end no-tool sed; return; }
  # The maps of a worker are long: one engine process beside the one that was started.
  set -- "$ROOT/proc/$worker/maps"
  for x in $workers; do
    case $x in 3:*) x=${x#*:}; set -- "$@" "$ROOT/proc/${x%%:*}/maps"; break ;; esac
  done
  if [ ! -r "$1" ] || ! true 2>/dev/null <"$1"; then end denied "${1#"$ROOT"}"; return; fi
  # Mappings of one file follow each other: of these the first is printed.
  sed -nE '\#^[^/]* (/.*/lib(uc[pstm]|uct_|nixl|plugin_|nccl|fabric|cuda\.|cudart|ibverbs|mlx5|efa|gdrapi)[^/]*|/dev/infiniband/.*)$#{s##\1#;x;G;/^(.*)\n\1$/{s/\n.*//;x;d};s/^.*\n//;h;p}' "$@" \
    2>/dev/null </dev/null
  end ok
}
# Of the command line only what chooses the way of the KV cache: the rest of the JSON may hold anything.
worker_kv_transfer() { # id cap
  begin "$1" "$2"
  [ -n "$worker" ] || { end no-worker; return; }
  has tr || { end no-tool tr; return; }
  f=$ROOT/proc/$worker/cmdline
  if [ ! -r "$f" ] || ! true 2>/dev/null <"$f"; then end denied "${f#"$ROOT"}"; return; fi
  option=
  each_line "$command_line" kv_option
  [ -r "$environ" ] && transceiver
  end ok
}
# vLLM takes dashes and underscores for each other, and a field by its path: --kv-transfer-config.kv_role X.
kv_option() {
  case $option,$1 in
    ,*=*) ;;
    ,--kv[-_]transfer[-_]config | ,--kv[-_]transfer[-_]config.* | ,--disaggregation[-_]transfer[-_]backend | \
    ,--extra[-_]engine[-_]args | ,--override[-_]engine[-_]args | ,--trtllm.cache_transceiver_config.backend)
      option=$1=; return ;;
  esac
  a=$option$1 option=
  case $a in
    --kv[-_]transfer[-_]config=*) kv_transfer "${a#*=}" ;;
    --kv[-_]transfer[-_]config.*=*)
      n=${a%%=*}; n=${n##*.}; n=${n%+}
      case $n in
        backends) kv_word "$n" "${a#*=}" '[' ']' ;;
        kv_connector | kv_role | kv_buffer_device) kv_word "$n" "${a#*=}" ;;
      esac ;;
    --disaggregation[-_]transfer[-_]backend=*) kv_word transfer_backend "${a#*=}" ;;
    --extra[-_]engine[-_]args=*) engine_file=${a#*=} ;;
    --override[-_]engine[-_]args=*) laid_over=${a#*=} ;;
    --trtllm.cache_transceiver_config.backend=*) laid_by=${a#*=} ;;
    # What stands in a file is not read.
    --config | --config=*) put '"not_read": "--config"' ;;
  esac
}
# TensorRT-LLM: cache_transceiver_config.backend, as it is laid over the file that the command line names, or as the file says.
transceiver() {
  [ "${#laid_over}" -le 16384 ] || { put '"not_read": "a long value"'; return; }
  case $laid_over in
    *\\*) put '"not_read": "an escaped value"'; return ;;
    *'"cache_transceiver_config"'*'"cache_transceiver_config"'*) put '"not_read": "a value"'; return ;;
    *'"cache_transceiver_config"'*)
      v=${laid_over#*'"cache_transceiver_config"'}; v=${v#"${v%%[!: 	]*}"}; v=${v%%'}'*}
      case $v in
        # Something within it, or twice: which of it counts takes a reader of JSON.
        '{'*'{'* | *'"backend"'*'"backend"'*) put '"not_read": "a value"' ;;
        '{'*'"backend"'*)
          v=${v#*'"backend"'}; v=${v#"${v%%[!: 	]*}"}
          case $v in '"'*'"'*) v=${v#'"'}; kv_word transceiver "${v%%'"'*}" ;; *) put '"not_read": "a value"' ;; esac ;;
        # It depends on the release whether the rest of what the file says there is dropped.
        *) put '"not_read": "--override-engine-args"' ;;
      esac
      return ;;
  esac
  [ -z "$laid_by" ] || { kv_word transceiver "$laid_by"; return; }
  case $engine_file in
    '') return ;;
    /*)
      f=$ROOT/proc/$worker/root$engine_file
      [ -r "$f" ] || f=$ROOT$engine_file ;;
    *) f=$ROOT/proc/$worker/cwd/$engine_file ;;
  esac
  if ! has sed || [ ! -f "$f" ] || ! true 2>/dev/null <"$f"; then put '"not_read": "--extra-engine-args"'; return; fi
  # Of the file one word leaves. A key that is there and whose backend is not found may be written in another way.
  v=$(sed -nE '5000q;s/#.*//;/^.?cache_transceiver_config/,/^[^ 	]/{/^.?cache_transceiver_config/!{/^[^ 	]/d;};s/^(.*[ 	{,])?["'"'"']?backend["'"'"']?[ 	]*:[ 	]*["'"'"']?([A-Za-z_]{1,20})["'"'"']?[ 	]*([,}].*)?$/transceiver \2/p;};s/^.?cache_transceiver_config.*/not_read/p' "$f" 2>/dev/null </dev/null)
  case $v in
    *'transceiver null'*) ;;
    *'transceiver '*) v=${v#*'transceiver '}; kv_word transceiver "${v%%[!A-Za-z_]*}" ;;
    *not_read*) put '"not_read": "cache_transceiver_config"' ;;
  esac
}
# A plain word; what is none may hold anything.
kv_word() {
  case $1,$2 in
    *, | *,*[!A-Za-z0-9_]*) case $1 in kv_role | kv_buffer_device) ;; *) put '"not_read": "a value"' ;; esac ;;
    *) put "\"$1\": ${3-}\"$2\"${4-}" ;;
  esac
}
# Prints "name": value of four names, where the value is a plain word or a list of such.
kv_transfer() {
  v=$1
  # Cutting at each quote takes the square of the length; an escaped letter may be any.
  [ "${#v}" -le 16384 ] || { put '"not_read": "a long value"'; return; }
  case $v in *\\*) put '"not_read": "an escaped value"' ;; esac
  while :; do
    case $v in *'"'*) v=${v#*'"'} ;; *) return ;; esac
    case $v in kv_connector'"'* | kv_role'"'* | kv_buffer_device'"'* | backends'"'*) ;; *) continue ;; esac
    n=${v%%'"'*} v=${v#*'"'}
    a=${v#"${v%%[! 	]*}"}
    case $a in :*) a=${a#:}; a=${a#"${a%%[! 	]*}"} ;; *) continue ;; esac
    case $a in
      '"'*'"'*) a=${a#'"'}; kv_word "$n" "${a%%'"'*}" ;;
      '['*']'*) a=${a%%']'*}]; case $a in '['*[!A-Za-z0-9_,\ \"]*']') put '"not_read": "a value"' ;; *) put "\"$n\": $a" ;; esac ;;
    esac
  done
}
worker_lines() { # file expression id cap
  if [ -z "$worker" ]; then leave_out "$3" no-worker
  elif [ -z "$2" ]; then text "$3" "$4" "/proc/$worker/$1"
  else lines "$3" "$4" "/proc/$worker/$1" "$2"; fi
}
fib_local() { # id cap
  begin "$1" "$2"
  [ -r "$ROOT/proc/net/fib_trie" ] || { end absent /proc/net/fib_trie; return; }
  has grep || { end no-tool grep; return; }
  grep -B1 '/32 host LOCAL' "$ROOT/proc/net/fib_trie" 2>/dev/null </dev/null
  end ok
}
# Directories of Python packages: the usual ones, those of the worker's environment and PYTHONPATH and of the interpreters that it
# or a command in the container would run. An environment is known by how its interpreter is called, not by the file.
find_sites() {
  set -- "$ROOT"/usr/lib/python3*/dist-packages "$ROOT"/usr/local/lib/python3*/dist-packages \
    "$ROOT"/usr/local/lib/python3*/site-packages "$ROOT"/usr/lib/python3*/site-packages \
    "$ROOT"/usr/lib64/python3*/site-packages "$ROOT"/opt/dynamo/venv/lib/python3*/site-packages \
    "$ROOT"/opt/*/lib/python3*/site-packages "$ROOT"/workspace/.venv/lib/python3*/site-packages \
    "$ROOT"/root/.local/lib/python3*/site-packages "$ROOT"/sgl-workspace/*/lib/python3*/site-packages
  [ -z "$virtual_env" ] || set -- "$@" "$ROOT$virtual_env"/lib/python3*/site-packages
  called= file= exe=
  IFS=:; set -f
  for d in $python_path; do case $d in /*) set -- "$@" "$ROOT$d" ;; esac; done
  for d in $PATH; do [ ! -x "$d/python3" ] || { called=$d/python3; break; }; done
  set +f; IFS=' 	
'
  if has readlink; then
    [ ! -L "$called" ] || file=$(readlink -f "$called" 2>/dev/null </dev/null)
    [ -z "$worker" ] || exe=$(readlink "$ROOT/proc/$worker/exe" 2>/dev/null </dev/null)
  fi
  for v in "$exe" "$command_line" "${called#"$ROOT"}" "${file#"$ROOT"}"; do
    v=${v%%"
"*}
    case $v in
      /bin/*) ;;
      /*/bin/*) v=$ROOT${v%/bin/*}; set -- "$@" "$v"/lib/python3*/site-packages "$v"/lib/python3*/dist-packages ;;
    esac
  done
  for d do
    [ -d "$d" ] || continue
    case "
$site_dirs" in *"
$d
"*) ;; *) site_dirs="$site_dirs$d
" ;; esac
  done
}
packages_here() {
  for f in "$1"/*.dist-info; do
    case ${f##*/} in
      nixl* | ai_dynamo* | vllm-* | sglang-* | tensorrt_llm* | torch-* | nvidia_nccl* | libucx* | ucx_py* | ucxx* | mooncake* | lmcache*)
        put "${f#"$ROOT"}" ;;
    esac
  done
}
plugins_here() {
  paths "$1"/.nixl*.libs/plugins/libplugin_*.so "$1"/nixl*.libs/nixl/libplugin_*.so
}
# The directory that the worker names is the only one that NIXL looks in; that it was looked at is said by its line.
plugins_named() {
  case $nixl_plugin_dir in /*) ;; *) return ;; esac
  paths "$ROOT${nixl_plugin_dir%/}"/libplugin_*.so
  [ -d "$ROOT$nixl_plugin_dir" ] && ! [ -r "$ROOT$nixl_plugin_dir" ] || put "NIXL_PLUGIN_DIR was looked at"
}
ucx_here() {
  paths "$1"/nixl*.libs/libuc[pst]-*.so* "$1"/nixl*.libs/ucx/libuc[tm]_*.so* "$1"/libucx/lib/libuc[pst].so* \
    "$1"/libucx/lib/ucx/libuc[tm]_*.so*
}
# Settings of catalogued names in a file: "path: present", then "path: NAME=value" and its section headers.
settings() {
  for f do
    [ -f "$f" ] || continue
    [ -r "$f" ] || { put "${f#"$ROOT"}: denied"; continue; }
    put "${f#"$ROOT"}: present"
    file=${f#"$ROOT"}
    each_line "$(grep -a -m 100 -E "^[[:space:]]*($BEGIN|\[)" "$f" 2>/dev/null </dev/null)" setting
  done
}
setting() {
  v=${1#"${1%%[! 	]*}"} n=
  case $v in
    '['*) ;;
    *=*) n=${v%%=*}; n=${n%"${n##*[! 	]}"}; case "|$NAMES|" in *"|$n|"*) ;; *) return ;; esac ;;
    *) return ;;
  esac
  v=$1; clean; put "$file: $v"
}
ucx_settings() {
  set -- "$ROOT"/etc/ucx/ucx.conf "$ROOT"/usr/etc/ucx/ucx.conf "$ROOT"/usr/local/etc/ucx/ucx.conf \
    "$ROOT"/usr/local/ucx/etc/ucx/ucx.conf "$ROOT"/opt/hpcx/ucx/etc/ucx/ucx.conf "$ROOT$home/ucx.conf"
  [ -z "$ucx_config_dir" ] || set -- "$@" "$ROOT$ucx_config_dir/ucx.conf"
  [ -z "$worker" ] || set -- "$@" "$ROOT/proc/$worker/cwd/ucx.conf"
  settings "$@"
}
nccl_settings() {
  set -- "$ROOT"/etc/nccl.conf "$ROOT${nccl_conf_file:-$home/.nccl.conf}"
  settings "$@"
}

rdma=
for d in "$ROOT"/sys/class/infiniband/*; do [ ! -e "$d" ] || rdma=1; done
printf '%s probe @FORMAT@\n' "$NONCE"

