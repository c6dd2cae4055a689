#!/bin/bash
# Writes system_monitor.log in the working directory: what the agent's own processes see of the machine (H §1.8). The
# agent can write the file; what the host saw is in the run's own system_monitor.log. Ends with the sandbox.
every=${MONITOR_INTERVAL:-60}
gpu=index,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu,power.draw

now() { date -u '+%Y-%m-%d %H:%M:%S UTC'; }
smi() { timeout 20 nvidia-smi "$1" --format=csv,noheader 2>/dev/null; }

{
    echo "=== System Monitor Started (interval: ${every}s) ==="
    echo "Start time: $(now)"
    echo
} >system_monitor.log
while :; do
    {
        echo "--- $(now) ---"
        echo "[GPU]"
        smi "--query-gpu=$gpu" || echo "  not reported"
        echo "[GPU Processes]"
        said=$(smi --query-compute-apps=pid,used_memory,name)
        echo "${said:-  none}"
        echo "[CPU]"
        uptime 2>/dev/null || cat /proc/loadavg
        echo "[Memory]"
        free -h 2>/dev/null | grep -E '^(Mem|Swap)' || echo "  not reported"
        echo "[Disk]"
        df -h . 2>/dev/null | tail -n 1
        echo "  Task dir: $(timeout 30 du -sh . 2>/dev/null | cut -f 1)"
        echo
    } >>system_monitor.log
    sleep "$every" || exit
done
