/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel as the control plane sees it, for simulated processes (sim_posix.h). The linker's
 * --wrap redirects every call here. Calls outside of simulated processes, or on real descriptors,
 * go to the real function.
 *
 * A signal kills a few microseconds later: the victim may be in the middle of anything, and the
 * killer learns of the death only from the pidfd and the locks. One thread.
 */
#include "sim_posix.h"

#include "sim_internal.h"

#include "base/log.h"
#include "cluster/peers_private.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#define POSIX_WALL_BASE_NS (1800000000ull * NS_PER_S) /* wall clock at simulated time 0 */
#define POSIX_KILL_MAX_US  20
#define POSIX_STALE_NS     (NS_PER_S / 2) /* most age of a killer's observation */
#define POSIX_SO_PEERPIDFD 77
#define POSIX_BOOT_ID      "/proc/sys/kernel/random/boot_id"

struct posix_process {
	struct sim_process *process;
	struct prng prng;
	int64_t wall_ns; /* offset of the wall clock to the process' clock */
};

static struct posix_process *known;
static unsigned known_count, known_room;
static int64_t wall_ns_of_new;
static uint64_t kill_count;
static uint64_t live_kill_count;

void sim_posix_reset(void)
{
	free(known);
	known = NULL;
	known_count = known_room = 0;
	wall_ns_of_new = 0;
	kill_count = 0;
	live_kill_count = 0;
}

uint64_t sim_posix_kills(void)
{
	return kill_count;
}

uint64_t sim_posix_live_kills(void)
{
	return live_kill_count;
}

static uint64_t name_hash(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 0x100000001b3ull;
	return hash;
}

/* Searches the newest first: processes of former simulations are dead. */
static unsigned known_index(struct sim_process *process)
{
	struct posix_process *added;

	for (unsigned i = known_count; i > 0; i--) {
		if (known[i - 1].process == process)
			return i - 1;
	}
	if (known_count == known_room) {
		known_room = known_room ? known_room * 2 : 16;
		known = sim_realloc(known, known_room * sizeof(*known));
	}
	added = &known[known_count];
	*added = (struct posix_process){.process = process, .wall_ns = wall_ns_of_new};
	prng_seed(&added->prng,
		  sim_seed(sim_now_running) ^ name_hash(sim_process_name(process)) ^ known_count);
	return known_count++;
}

/* In two steps: known_index may move the table. */
static struct posix_process *known_get(struct sim_process *process)
{
	unsigned index = known_index(process);

	return &known[index];
}

void sim_posix_seed(struct sim_process *process, uint64_t seed)
{
	prng_seed(&known_get(process)->prng, seed);
}

void sim_posix_jump_wall(struct sim_process *process, int64_t ns)
{
	known_get(process)->wall_ns += ns;
	wall_ns_of_new += ns;
}

static struct posix_process *current(void)
{
	struct sim_process *process = sim_now_running ? sim_process_current() : NULL;

	return process ? known_get(process) : NULL;
}

/* ---- clocks, randomness, identity of the machine ---------------------------------------------
 */

int __real_clock_gettime(clockid_t id, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret_now)
{
	const struct posix_process *process = current();
	uint64_t now_ns;

	if (!process || (id != CLOCK_MONOTONIC && id != CLOCK_REALTIME))
		return __real_clock_gettime(id, ret_now);
	now_ns = sim_process_clock_ns(process->process);
	if (id == CLOCK_REALTIME)
		now_ns += POSIX_WALL_BASE_NS + (uint64_t)process->wall_ns;
	ret_now->tv_sec = (time_t)(now_ns / NS_PER_S);
	ret_now->tv_nsec = (long)(now_ns % NS_PER_S);
	return 0;
}

ssize_t __real_getrandom(void *bytes, size_t len_bytes, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t len_bytes, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t len_bytes, unsigned flags)
{
	struct posix_process *process = current();

	if (!process)
		return __real_getrandom(bytes, len_bytes, flags);
	for (size_t i = 0; i < len_bytes; i++)
		((uint8_t *)bytes)[i] = (uint8_t)prng_next(&process->prng);
	return (ssize_t)len_bytes;
}

pid_t __real_getpid(void);
pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
	const struct posix_process *process = current();

	return process ? (pid_t)(SIM_FIRST_PID + (process - known)) : __real_getpid();
}

/* The store keeps this path; the real one's length would change how many pages are written. */
char *__real_getcwd(char *buffer, size_t bytes);
char *__wrap_getcwd(char *buffer, size_t bytes);
char *__wrap_getcwd(char *buffer, size_t bytes)
{
	if (!current() || !buffer || bytes < 2)
		return __real_getcwd(buffer, bytes);
	memcpy(buffer, "/", 2);
	return buffer;
}

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode)
{
	static char boot_id[] = "0b007000-0000-4000-8000-000000000001\n";

	if (current() && strcmp(path, POSIX_BOOT_ID) == 0)
		return fmemopen(boot_id, sizeof(boot_id) - 1, "r");
	return __real_fopen64(path, mode);
}

/* Simulated sockets have no file with a mode. */
int __real_chmod(const char *path, mode_t mode);
int __wrap_chmod(const char *path, mode_t mode);
int __wrap_chmod(const char *path, mode_t mode)
{
	return current() ? 0 : __real_chmod(path, mode);
}

/* Skipped: walks the whole real heap at each change. */
int __real_malloc_trim(size_t pad_bytes);
int __wrap_malloc_trim(size_t pad_bytes);
int __wrap_malloc_trim(size_t pad_bytes)
{
	return current() ? 0 : __real_malloc_trim(pad_bytes);
}

/* ---- other processes --------------------------------------------------------------------------
 */

static struct posix_process *pidfd_find(int fd)
{
	return fd >= SIM_FIRST_PIDFD && fd - SIM_FIRST_PIDFD < (int)known_count
		       ? &known[fd - SIM_FIRST_PIDFD]
		       : NULL;
}

/* The process at the other end of this socket; NULL: none, or not simulated. */
static struct sim_process *peer_process(int fd)
{
	const struct sim_end *end = sim_end_find(sim_now_running, fd);

	return end && end->peer ? end->peer->process : NULL;
}

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *value_bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *value_bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *value_bytes)
{
	struct sim_process *process;
	int pidfd;

	if (!current() || fd < SIM_FIRST_FD)
		return __real_getsockopt(fd, level, name, value, value_bytes);
	process = level == SOL_SOCKET && name == POSIX_SO_PEERPIDFD ? peer_process(fd) : NULL;
	if (!process || *value_bytes < sizeof(pidfd)) {
		errno = ENOPROTOOPT;
		return -1;
	}
	pidfd = SIM_FIRST_PIDFD + (int)known_index(process);
	memcpy(value, &pidfd, sizeof(pidfd));
	*value_bytes = sizeof(pidfd);
	return 0;
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	const struct posix_process *process = count == 1 ? pidfd_find(fds[0].fd) : NULL;

	if (!process)
		return __real_poll(fds, count, timeout_ms);
	fds[0].revents = sim_process_is_alive(process->process) ? 0 : POLLIN;
	return fds[0].revents ? 1 : 0;
}

/* True: a data reactor or the peers reactor of the process. */
static bool is_of_path(const struct reactor *reactor, const struct sim_process *process)
{
	return reactor->process == process &&
	       (reactor->index < SIM_CONTROL_INDEX || reactor->index == SIM_PEERS_INDEX);
}

static bool path_stood_still(const struct sim_process *process)
{
	uint64_t now_ns = sim_now(process->sim);

	list_for_each(node, &process->sim->reactors) {
		const struct reactor *reactor = list_entry(node, struct reactor, node);

		if (is_of_path(reactor, process) && reactor->frozen_until_ns != 0 &&
		    reactor->frozen_until_ns + POSIX_STALE_NS > now_ns)
			return true;
	}
	return false;
}

int __real_peer_process_look(int pidfd, struct peer_process *ret_process);
int __wrap_peer_process_look(int pidfd, struct peer_process *ret_process);
int __wrap_peer_process_look(int pidfd, struct peer_process *ret_process)
{
	const struct posix_process *known_process = pidfd_find(pidfd);
	struct sim *sim = sim_now_running;

	if (!known_process)
		return __real_peer_process_look(pidfd, ret_process);
	*ret_process = (struct peer_process){0};
	if (!sim_process_is_alive(known_process->process))
		return -ESRCH;
	list_for_each(node, &sim->reactors) {
		const struct reactor *reactor = list_entry(node, struct reactor, node);

		if (!is_of_path(reactor, known_process->process))
			continue;
		ret_process->switches += reactor->stats.turns;
		ret_process->runnable += reactor->frozen_until_ns <= sim_now(sim);
		ret_process->held += reactor->frozen_until_ns > sim_now(sim);
	}
	return 0;
}

static void kill_run(void *arg)
{
	struct sim_process *process = arg;

	if (!sim_process_is_alive(process))
		return;
	kill_count++;
	sim_process_kill(process, SIM_DEATH_KILLED);
}

int __real_pidfd_send_signal(int fd, int signal, siginfo_t *info, unsigned flags);
int __wrap_pidfd_send_signal(int fd, int signal, siginfo_t *info, unsigned flags);
int __wrap_pidfd_send_signal(int fd, int signal, siginfo_t *info, unsigned flags)
{
	const struct posix_process *process = pidfd_find(fd);
	struct sim *sim = sim_now_running;

	if (!process)
		return __real_pidfd_send_signal(fd, signal, info, flags);
	if (!sim_process_is_alive(process->process)) {
		errno = ESRCH;
		return -1;
	}
	/* A process that dies at this operation sends no signal. */
	if (!sim_process_operate(sim_process_current()))
		return 0;
	live_kill_count += !path_stood_still(process->process);
	sim_trace(sim, "%s kills %s", sim_process_name(sim_process_current()),
		  sim_process_name(process->process));
	sim_at(sim, sim_now(sim) + sim_delay_ns(sim, POSIX_KILL_MAX_US), kill_run,
	       process->process);
	return 0;
}

/* ---- the log ----------------------------------------------------------------------------------
 */

void __real_log_line(enum log_level level, const char *area, const char *format, ...);
void __wrap_log_line(enum log_level level, const char *area, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void __wrap_log_line(enum log_level level, const char *area, const char *format, ...)
{
	const struct sim_process *process = sim_now_running ? sim_process_current() : NULL;
	char line[LOG_LINE_BYTES];
	va_list args;

	if (level > log_get_level())
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (process)
		fprintf(stderr, "%12.3f us %s: %s: %s\n", (double)sim_now(sim_now_running) / 1000.0,
			sim_process_name(process), area, line);
	else
		__real_log_line(level, area, "%s", line);
}
