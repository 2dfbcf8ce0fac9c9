/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/PID/task/TID/schedstat, whose first number is the thread's time on a CPU in
 * nanoseconds. This is much finer than the ticks of /proc/PID/stat, and excludes time in which
 * other threads had the CPU. Main thread or the job's reactor.
 */
#include "perf/cpu_time.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>

int perf_cpu_time_ns(pid_t pid, uint64_t *ret_ns)
{
	char path[64];
	struct dirent *entry;
	uint64_t total_ns = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (dir == NULL)
		return -errno;
	while ((entry = readdir(dir)) != NULL) {
		unsigned long long ns = 0;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/schedstat", (int)pid,
			 entry->d_name);
		file = fopen(path, "re");
		if (file == NULL)
			continue;
		if (fscanf(file, "%llu", &ns) == 1)
			total_ns += ns;
		fclose(file);
	}
	closedir(dir);
	*ret_ns = total_ns;
	return 0;
}
