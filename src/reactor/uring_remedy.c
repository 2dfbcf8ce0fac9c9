/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out why the kernel refuses a ring: a sysctl, a seccomp profile (container runtimes block
 * io_uring by default), a kernel without io_uring, or a limit. All except limits are EPERM, EACCES
 * or ENOSYS, so the sysctl and the process's seccomp mode are read to find the cause. Any thread.
 */
#include "reactor/uring_remedy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number after `key` at the start of a line of the file. 0: missing. */
static long proc_number(const char *path, const char *key)
{
	FILE *file = fopen(path, "re");
	char line[256];
	long number = 0;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, strlen(key)) == 0) {
			number = strtol(line + strlen(key), NULL, 10);
			break;
		}
	}
	fclose(file);
	return number;
}

static bool is_filtered(void)
{
	return proc_number("/proc/self/status", "Seccomp:") == 2;
}

const char *uring_remedy(int error)
{
	long disabled = proc_number("/proc/sys/kernel/io_uring_disabled", "");

	if ((error == -EPERM || error == -EACCES) && disabled == 2)
		return "io_uring is switched off; run `sysctl kernel.io_uring_disabled=0` as root";
	if ((error == -EPERM || error == -EACCES) && disabled == 1)
		return "only root and members of kernel.io_uring_group may use io_uring; run as "
		       "root or as a member of the group, or `sysctl kernel.io_uring_disabled=0`";
	if ((error == -EPERM || error == -EACCES || error == -ENOSYS) && is_filtered())
		return "a seccomp profile refuses io_uring, as those of container runtimes do by "
		       "default; allow io_uring_setup, io_uring_enter and io_uring_register "
		       "(docker "
		       "run --security-opt seccomp=PROFILE.json)";
	if (error == -ENOSYS)
		return "this kernel has no io_uring; weft needs Linux 6.1 or newer";
	if (error == -ENOMEM)
		return "locked memory is scarce; raise `ulimit -l` (systemd: LimitMEMLOCK=)";
	if (error == -EMFILE || error == -ENFILE)
		return "too many open files; raise `ulimit -n`";
	return "`weft info` shows what this kernel's io_uring can do";
}
