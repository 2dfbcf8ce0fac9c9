/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a silent peer may be killed, which of its threads count, and whether the locks on shared
 * files prove its death. Only its own free lock proves it: a lock that cannot be queried, or a lock
 * on a file that is no longer served, means that the peer may still write. Other members' locks
 * prove nothing.
 */
#include "base/text.h"
#include "cluster/peers_private.h"
#include "media/member_lock.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEER 1
#define NQN  "nqn.2026-11.io.weft:x"

static char path[] = "/tmp/weft-evidence-XXXXXX";
static char names[1][NVME_NQN_BYTES] = {NQN};
static struct peers peers = {.config = {.peer_count = 1}};
static struct peer_config config = {.lock = PEER, .addr = {.path = "/run/b.sock"}};
static const struct peer peer = {.peers = &peers, .config = &config};

/* Evidence of one served file and one that is no longer served. */
static enum peer_evidence evidence_of(int served_fd, int unserved_fd)
{
	struct peer_file_table *table = calloc(1, sizeof(*table) + 2 * sizeof(table->entries[0]));
	enum peer_evidence evidence;

	if (!table)
		abort();
	table->names = names;
	table->name_count = 1;
	table->count = 2;
	table->entries[0] = (struct peer_file_entry){.fd = served_fd};
	table->entries[1] =
		(struct peer_file_entry){.fd = unserved_fd, .subsystem = PEER_FILE_UNSERVED};
	atomic_store(&peers.file_table, table);
	evidence = peer_evidence(&peer, NQN);
	atomic_store(&peers.file_table, NULL);
	free(table);
	return evidence;
}

/* The peer serves another file: its lock cannot be on this member's file, dead or alive. */
static void another_file_tells_nothing(void)
{
	struct peer_file_table *table = calloc(1, sizeof(*table) + sizeof(table->entries[0]));
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (!table)
		abort();
	table->names = names;
	table->name_count = 1;
	table->count = 1;
	table->entries[0] = (struct peer_file_entry){.fd = fd, .differs = 1u << config.index};
	atomic_store(&peers.file_table, table);
	EXPECT_EQ(PEER_EVIDENCE_NONE, peer_evidence(&peer, NQN));
	table->entries[0].differs = (uint16_t) ~(1u << config.index);
	EXPECT_EQ(PEER_EVIDENCE_DEAD, peer_evidence(&peer, NQN));
	atomic_store(&peers.file_table, NULL);
	free(table);
	close(fd);
}

/* A silent peer is killed only when one of its reactors cannot run, whatever its load was. */
static void idle_is_not_still(void)
{
	static const struct {
		struct peer_process after;
		bool runs;
	} rows[] = {
		{{.switches = 7, .held = 2}, false},                /* whole process stopped */
		{{.switches = 7, .held = 1, .sleeping = 1}, false}, /* one reactor of two */
		{{.switches = 7, .sleeping = 2}, true},             /* no work */
		{{.switches = 8, .held = 2}, true},                 /* ran until now */
		{{.switches = 7, .held = 1, .runnable = 1}, true},  /* waits for a CPU */
		{{.switches = 7, .held = 1, .sleeping = 1, .is_answer_held = true}, true},
	};
	struct peer_process before = {.switches = 7, .held = 2};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
		EXPECT_EQ(rows[i].runs, peer_process_runs(&before, &rows[i].after));
}

static uint64_t switches_of_this_thread(void)
{
	struct rusage usage;

	CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
	return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

/* Threads of the data path and the thread that answers peers count, others do not. The former
 * content of the caller's struct does not matter. */
static void threads_are_counted_by_name(void)
{
	static const struct {
		const char *name;
		unsigned runnable;
	} rows[] = {{"weft-r0", 1}, {"weft-r17", 1}, {PEERS_THREAD_NAME, 1}, {"weft", 0}};
	int pidfd = pidfd_open(getpid(), 0);
	uint64_t before;

	if (pidfd < 0) {
		EXPECT(!"a pidfd of our own");
		return;
	}
	/* Waiting for a child gives up the CPU once. */
	for (pid_t child; switches_of_this_thread() == 0;) {
		child = fork();
		if (child == 0)
			_exit(0);
		CHECK(child > 0 && waitpid(child, NULL, 0) == child);
	}
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct peer_process process;

		memset(&process, 0xff, sizeof(process));
		prctl(PR_SET_NAME, rows[i].name);
		before = switches_of_this_thread();
		EXPECT_EQ(0, peer_process_look(pidfd, &process));
		/* The looking thread itself is running. */
		EXPECT_EQ(rows[i].runnable, process.runnable);
		EXPECT_EQ(0, process.sleeping);
		EXPECT_EQ(0, process.held);
		EXPECT_EQ(false, process.is_answer_held);
		if (rows[i].runnable > 0)
			EXPECT_THAT(process.switches >= before &&
					    process.switches <= switches_of_this_thread(),
				    "%s: %llu switches", rows[i].name,
				    (unsigned long long)process.switches);
		else
			EXPECT_EQ(0, process.switches);
	}
	close(pidfd);
}

static void only_free_locks_prove_death(void)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), other = open(path, O_RDWR | O_CLOEXEC);
	/* Querying a lock through this descriptor fails with EBADF. */
	int deaf = open(path, O_PATH | O_CLOEXEC);

	EXPECT_EQ(PEER_EVIDENCE_DEAD, evidence_of(fd, fd));
	EXPECT_EQ(PEER_EVIDENCE_ALIVE, evidence_of(deaf, fd));
	EXPECT_EQ(PEER_EVIDENCE_ALIVE, evidence_of(fd, deaf));
	EXPECT_EQ(PEER_EVIDENCE_NONE, evidence_of(-1, fd));
	EXPECT_EQ(0, member_lock_share(other, PEER));
	EXPECT_EQ(PEER_EVIDENCE_ALIVE, evidence_of(fd, fd));
	close(other);
	other = open(path, O_RDWR | O_CLOEXEC);
	EXPECT_EQ(PEER_EVIDENCE_DEAD, evidence_of(fd, fd));
	EXPECT_EQ(0, member_lock_share(other, 0));
	EXPECT_EQ(PEER_EVIDENCE_DEAD, evidence_of(fd, fd));
	EXPECT_EQ(0, member_lock_share(other, MEMBER_LOCK_MAX - 1));
	EXPECT_EQ(PEER_EVIDENCE_DEAD, evidence_of(fd, fd));
	close(other);
	close(deaf);
	close(fd);
}

static void nothing_proves_it_on_another_machine(void)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	config.addr.path[0] = 0;
	EXPECT_EQ(PEER_EVIDENCE_NONE, evidence_of(fd, fd));
	text_copy(config.addr.path, sizeof(config.addr.path), "/run/b.sock");
	EXPECT_EQ(PEER_EVIDENCE_NONE, peer_evidence(&peer, NQN));
	close(fd);
}

int main(void)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return 1;
	close(fd);
	TAP_RUN(idle_is_not_still);
	TAP_RUN(threads_are_counted_by_name);
	TAP_RUN(another_file_tells_nothing);
	TAP_RUN(only_free_locks_prove_death);
	TAP_RUN(nothing_proves_it_on_another_machine);
	unlink(path);
	return tap_end();
}
