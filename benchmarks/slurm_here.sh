#!/bin/sh
# Starts a SLURM of one node on this machine, for trials of `unbounded study --executor slurm`.
# It needs root, and Debian's packages: apt-get install --no-install-recommends slurm-wlm munge
# Stop it again: benchmarks/slurm_here.sh stop
set -e
STATE=${SLURM_STATE:-/tmp/slurm_here}
if [ "$1" = stop ]; then
    for name in slurmctld slurmd munged; do
        if [ -f "$STATE/$name.pid" ]; then kill "$(cat "$STATE/$name.pid")" || true; fi
    done
    exit 0
fi
mkdir -p "$STATE/state" "$STATE/spool" /run/munge
chown munge: /run/munge
[ -f /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1 count=1024 2>/dev/null; }
chown munge: /etc/munge/munge.key
chmod 400 /etc/munge/munge.key
su -s /bin/sh munge -c "/usr/sbin/munged --force" || true
cp /run/munge/munged.pid "$STATE/munged.pid" 2>/dev/null || true
HOST=$(hostname -s)
# proctrack/linuxproc needs no cgroup, so that this works in a container.
# KillWait is the time between SIGTERM and SIGKILL; MinJobAge keeps ended jobs in squeue.
cat >/etc/slurm/slurm.conf <<CONF
ClusterName=here
SlurmctldHost=$HOST
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=$STATE/state
SlurmdSpoolDir=$STATE/spool
SlurmctldPidFile=$STATE/slurmctld.pid
SlurmdPidFile=$STATE/slurmd.pid
SlurmctldLogFile=$STATE/slurmctld.log
SlurmdLogFile=$STATE/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=30
OverTimeLimit=0
JobRequeue=1
NodeName=$HOST CPUs=$(nproc) RealMemory=2000 State=UNKNOWN
PartitionName=cpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
CONF
slurmctld
slurmd
for _ in 1 2 3 4 5 6 7 8 9 10; do
    sinfo --noheader --format %T | grep -q idle && break
    sleep 1
done
sinfo
