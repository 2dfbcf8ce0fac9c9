/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of members on a shared file: visible to others while any description of the member is open,
 * also while its process is stopped, and free when it was killed, also with writes in flight:
 * nothing is written after the lock is free. Claims exclude a second process of the same member.
 * Also what opening a shared medium undoes, and what it does not.
 */
#include "media/file.h"
#include "media/media.h"
#include "media/member_lock.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[] = "/tmp/weft-member-XXXXXX";

/* True in ret_can when any of these members can still write to the medium's store. */
static int members_can_write(const struct media *media, unsigned first, unsigned count,
			     bool *ret_can)
{
	int fd = media_member_watch(media);
	int res = fd < 0 ? fd : member_lock_is_held(fd, first, count, ret_can);

	if (fd >= 0)
		member_lock_unwatch(fd);
	return res;
}

static bool is_held(int fd, unsigned member)
{
	bool held = false;

	EXPECT_THAT(member_lock_is_held(fd, member, 1, &held) == 0, "asking for member %u works",
		    member);
	return held;
}

/* Starts a process that takes the member's lock and ends by itself, or stays until it is killed. */
static pid_t claimer_start(unsigned member, bool stays)
{
	int told[2];
	char byte;
	pid_t pid;

	EXPECT_EQ(0, pipe(told));
	pid = fork();
	if (pid == 0) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		if (member_lock_claim(fd, member, false) != 0 || write(told[1], "x", 1) != 1)
			_exit(1);
		if (stays)
			pause();
		_exit(0);
	}
	EXPECT_EQ(1, read(told[0], &byte, 1));
	close(told[0]);
	close(told[1]);
	return pid;
}

/* The file of a removed namespace: no medium over it is open here. */
static void removed_files_settle(void)
{
	int watch = member_lock_watch_path(path);
	pid_t pid = claimer_start(3, true);

	EXPECT_THAT(watch >= 0, "a watch by name");
	EXPECT_EQ(-ENOENT, member_lock_watch_path("/nowhere/at/all"));
	EXPECT_EQ(-EWOULDBLOCK, member_lock_settle(watch, 3, false));
	EXPECT_EQ(0, member_lock_settle(watch, 4, true));
	kill(pid, SIGKILL);
	EXPECT_EQ(0, member_lock_settle(watch, 3, true));
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	pid = claimer_start(3, false);
	EXPECT_EQ(0, member_lock_settle(watch, 3, true));
	EXPECT_THAT(!is_held(watch, 3), "it has waited for the end of the process");
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	member_lock_unwatch(watch);
}

static void descriptions(void)
{
	int a = open(path, O_RDWR | O_CLOEXEC), b = open(path, O_RDWR | O_CLOEXEC);
	int more = open(path, O_RDWR | O_CLOEXEC);
	int copy;

	EXPECT_THAT(!is_held(b, 3), "free at first");
	EXPECT_THAT(member_lock_claim(a, 3, true) == 0, "claimed");
	EXPECT_THAT(is_held(b, 3), "another description sees it");
	EXPECT_THAT(!is_held(a, 3), "its own does not count");
	EXPECT_THAT(!is_held(b, 2) && !is_held(b, 4), "its neighbours are free");
	EXPECT_THAT(member_lock_claim(b, 4, true) == 0, "another member claims its own");
	EXPECT_THAT(member_lock_share(more, 3) == 0, "a second description of a member");
	copy = dup(more);
	close(a);
	close(more);
	EXPECT_THAT(is_held(b, 3), "held as long as any description is, by whatever descriptor");
	close(copy);
	EXPECT_THAT(!is_held(b, 3), "free with the last one");
	close(b);
}

static void ranges(void)
{
	int a = open(path, O_RDWR | O_CLOEXEC), b = open(path, O_RDWR | O_CLOEXEC);
	bool held = true;

	EXPECT_THAT(member_lock_is_held(b, 16, 0, &held) == 0 && !held,
		    "of no members none is held");
	EXPECT_THAT(member_lock_share(a, 7) == 0, "member 7");
	EXPECT_THAT(member_lock_is_held(b, 0, 7, &held) == 0 && !held, "0 to 6: free");
	EXPECT_THAT(member_lock_is_held(b, 2, 14, &held) == 0 && held, "2 to 15: held");
	EXPECT_THAT(member_lock_is_held(b, 8, 8, &held) == 0 && !held, "8 to 15: free");
	close(a);
	close(b);
}

static void fences(void)
{
	int a = open(path, O_RDWR | O_CLOEXEC), b = open(path, O_RDWR | O_CLOEXEC);
	bool held = true;

	EXPECT_THAT(member_lock_take_fence(a) == 0, "one takes the right to fence");
	EXPECT_THAT(member_lock_take_fence(b) == -EAGAIN, "the other does not get it");
	EXPECT_THAT(member_lock_take_fence(a) == 0, "who has it may take it again");
	EXPECT_THAT(member_lock_is_held(b, 0, MEMBER_LOCK_MAX, &held) == 0 && !held,
		    "it is no member's");
	member_lock_drop_fence(a);
	EXPECT_THAT(member_lock_take_fence(b) == 0, "then the other gets it");
	close(b);
	EXPECT_THAT(member_lock_take_fence(a) == 0, "and it goes with who had it");
	close(a);
}

/* Starts a process that holds the lock of member 1 until it is killed. */
static pid_t holder_start(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		if (member_lock_claim(fd, 1, true) == 0 && write(ready[1], "x", 1) == 1) {
			for (;;)
				pause();
		}
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		pid = -1;
	close(ready[0]);
	return pid;
}

static void processes(void)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), status;
	pid_t pid = holder_start();

	EXPECT_THAT(pid > 0 && is_held(fd, 1), "held by another process");
	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
	EXPECT_THAT(WIFSTOPPED(status) && is_held(fd, 1), "held by one that is stopped");
	EXPECT_THAT(member_lock_claim(fd, 1, false) == -EWOULDBLOCK, "who may not wait is refused");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	EXPECT_THAT(WIFSIGNALED(status) && !is_held(fd, 1), "free when it was killed and reaped");
	EXPECT_THAT(member_lock_claim(fd, 1, true) == 0, "its successor claims it");
	close(fd);
}

/* The claim waits while the predecessor lives, and ends when it is gone. */
static void successor(void)
{
	struct pollfd claimed = {.events = POLLIN};
	pid_t pid = holder_start(), claimer;
	int ends[2], status = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	claimer = fork();
	if (claimer == 0) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		_exit(member_lock_claim(fd, 1, true) == 0 && write(ends[1], "x", 1) == 1 ? 0 : 1);
	}
	claimed.fd = ends[0];
	EXPECT_THAT(poll(&claimed, 1, 50) == 0, "no claim beside a predecessor that lives");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT_THAT(poll(&claimed, 1, 5000) == 1, "a claim when it is dead");
	waitpid(claimer, &status, 0);
	EXPECT_THAT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "that succeeds");
	close(ends[0]);
	close(ends[1]);
}

static void shared_media(void)
{
	struct media_error error = {""};
	struct media *a = NULL, *b = NULL, *alone = NULL;
	char spec[128], bigger[128];
	bool can = true;
	struct stat st;

	snprintf(spec, sizeof(spec), "file:%s.img,size=1M,block=512", path);
	snprintf(bigger, sizeof(bigger), "file:%s.img,size=2M,block=4096", path);
	EXPECT_THAT(media_open_shared(spec, 0, &a, &error) == 0, "a shared file is made: %s",
		    error.text);
	EXPECT_THAT(media_open_shared(spec, 1, &b, &error) == 0, "and opened by another: %s",
		    error.text);
	EXPECT_THAT(media_member(a) == 0 && media_member(b) == 1, "each knows which it is");
	EXPECT_THAT(media_open(spec, &alone, &error) < 0, "nobody else may: %s", error.text);
	EXPECT_THAT(members_can_write(a, 1, 1, &can) == 0 && can, "the other can write");
	media_close(b);
	EXPECT_THAT(members_can_write(a, 1, 1, &can) == 0 && !can, "closed, it cannot");
	/* Blocks of 512 bytes may need buffered I/O. The second medium then has a description of
	 * its own. */
	EXPECT_THAT(media_reopen(a, bigger, &b, &error) == 0, "opened anew, larger: %s",
		    error.text);
	EXPECT_THAT(media_member(b) == 0, "still the same member");
	media_undo(b);
	media_close(a);
	EXPECT_THAT(media_open_shared(bigger, 1, &a, &error) == 0 &&
			    members_can_write(a, 0, 1, &can) == 0 && can,
		    "the one that followed holds the lock as well");
	media_undo(a);
	media_close(a);
	media_close(b);
	snprintf(spec, sizeof(spec), "%s.img", path);
	EXPECT_THAT(stat(spec, &st) == 0 && st.st_size == 2 << 20,
		    "nothing is undone that another member may use");
	unlink(spec);
	EXPECT_THAT(media_open_shared("mem:1M", 0, &a, &error) == -EINVAL, "memory is not shared");
}

/* A separate description for direct or buffered I/O writes too: its I/O in flight must hold the
 * lock after all other descriptions are closed. */
static void second_description(void)
{
	struct media *first = NULL, *second = NULL;
	struct media_error error = {""};
	struct file_media *file;
	char name[64], spec[128];
	int other, in_flight, res;

	snprintf(name, sizeof(name), "%s.img", path);
	snprintf(spec, sizeof(spec), "file:%s,size=1M", name);
	EXPECT_THAT(media_open_shared(spec, 3, &first, &error) == 0 &&
			    media_reopen(first, spec, &second, &error) == 0,
		    "two media over one file: %s", error.text);
	if (!second)
		return;
	file = container_of(second, struct file_media, media);
	res = file_set_direct(file, (fcntl(file->fd, F_GETFL) & O_DIRECT) == 0);
	if (res == -EINVAL) {
		printf("# no direct I/O here\n");
	} else {
		other = open(name, O_RDWR | O_CLOEXEC);
		in_flight = dup(file->fd);
		EXPECT_THAT(res == 0 && file->fd != file->backing->fd, "a description of its own");
		media_close(first);
		media_close(second);
		first = second = NULL;
		EXPECT_THAT(is_held(other, 3), "it holds the lock on its own");
		close(in_flight);
		EXPECT_THAT(!is_held(other, 3), "and the lock goes with it");
		close(other);
	}
	media_close(first);
	media_close(second);
	unlink(name);
}

/* ---- a writer that is killed ---------------------------------------------------------------- */

#define WRITES      32
#define WRITE_BYTES (256u << 10)

struct writer {
	struct media_io ios[WRITES];
	struct iovec iovs[WRITES];
};

static void written(struct media_io *io, int res)
{
	if (res < 0)
		_exit(2);
	memset(io->iov->iov_base, ++*(uint8_t *)io->iov->iov_base, WRITE_BYTES);
	media_submit(io);
}

/* Writes without end, as many at a time as a busy target, a new byte each time. */
static void writer_run(const char *spec)
{
	static struct writer writer;
	struct reactor *reactor;
	struct media_error error;
	struct media *media;

	if (reactor_create(&(struct reactor_config){.cpu = -1}, &reactor) < 0 ||
	    media_open_shared(spec, 1, &media, &error) < 0)
		_exit(3);
	for (unsigned i = 0; i < WRITES; i++) {
		writer.iovs[i].iov_len = WRITE_BYTES;
		writer.iovs[i].iov_base = aligned_alloc(4096, WRITE_BYTES);
		memset(writer.iovs[i].iov_base, 0, WRITE_BYTES);
		writer.ios[i] = (struct media_io){
			.reactor = reactor,
			.media = media,
			.kind = MEDIA_WRITE,
			.offset = (uint64_t)i * WRITE_BYTES,
			.len_bytes = WRITE_BYTES,
			.iov = &writer.iovs[i],
			.iov_count = 1,
			.done = written,
		};
		media_submit(&writer.ios[i]);
	}
	reactor_run(reactor);
}

static void contents_read(const char *name, uint8_t *bytes, size_t len_bytes)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	EXPECT_THAT(fd >= 0 && pread(fd, bytes, len_bytes, 0) == (ssize_t)len_bytes,
		    "the file is read");
	close(fd);
}

static void killed_once(const char *name, const char *spec, uint8_t *one, uint8_t *two)
{
	struct media_error error = {""};
	struct media *media = NULL;
	bool can_write = true;
	pid_t pid = fork();
	uint8_t first = 0;
	int fd;

	if (pid == 0)
		writer_run(spec);
	EXPECT_THAT(media_open_shared(spec, 0, &media, &error) == 0, "opened beside it: %s",
		    error.text);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	for (unsigned tries = 0; tries < 5000 && first < 3; tries++) {
		poll(NULL, 0, 1);
		if (pread(fd, &first, 1, 0) != 1)
			break;
	}
	EXPECT_THAT(first >= 3, "it writes");
	kill(pid, SIGKILL);
	for (unsigned tries = 0; tries < 10000 && can_write; tries++) {
		poll(NULL, 0, 1);
		if (members_can_write(media, 1, 1, &can_write) < 0)
			break;
	}
	EXPECT_THAT(!can_write, "its lock goes");
	contents_read(name, one, WRITES * WRITE_BYTES);
	poll(NULL, 0, 20);
	contents_read(name, two, WRITES * WRITE_BYTES);
	EXPECT_THAT(memcmp(one, two, WRITES * WRITE_BYTES) == 0,
		    "and nothing is written after that");
	waitpid(pid, NULL, 0);
	close(fd);
	media_close(media);
}

/* Ask for the lock before the dead process is reaped: the lock alone must show the death. */
static void killed_writer(void)
{
	uint8_t *one = malloc((size_t)WRITES * WRITE_BYTES);
	uint8_t *two = malloc((size_t)WRITES * WRITE_BYTES);
	char name[64], spec[128];

	snprintf(name, sizeof(name), "%s.img", path);
	snprintf(spec, sizeof(spec), "file:%s,size=%u", name, WRITES * WRITE_BYTES);
	for (unsigned i = 0; one && two && i < 5; i++) {
		unlink(name);
		killed_once(name, spec, one, two);
	}
	unlink(name);
	free(one);
	free(two);
}

/* A lost store keeps the member, or none, with which it was to be opened. */
static void lost_media(void)
{
	static const struct media_record known = {.size_bytes = 1 << 20, .block_bytes = 512};
	static const struct media_error problem = {"it is missing"};
	struct media_terms terms = {.known = &known};
	struct media *media;

	for (int member = -1; member < 2; member++) {
		terms.is_shared = member >= 0;
		terms.member = (unsigned)member;
		EXPECT_EQ(0, media_open_lost("file:/nowhere", &terms, &problem, &media));
		EXPECT_EQ(member, media_member(media));
		EXPECT_EQ(1 << 20, media->size_bytes);
		media_close(media);
	}
}

/* For /sys/block/NAME/queue/chunk_sectors, which no device of a test has. */
static void sectors_become_bytes(void)
{
	static const struct {
		const char *text;
		uint32_t bytes;
	} rows[] = {
		{"", 0},
		{"0", 0},
		{"1", 512},
		{"128", 65536},
		{"8388607", 0xfffffe00},
		{"8388608", 0},
		{"8388609", 0},
		{"4294967295", 0},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
		EXPECT_EQ(rows[i].bytes, file_sectors_to_bytes(rows[i].text));
}

int main(void)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return 1;
	close(fd);
	TAP_RUN(removed_files_settle);
	TAP_RUN(descriptions);
	TAP_RUN(ranges);
	TAP_RUN(fences);
	TAP_RUN(processes);
	TAP_RUN(successor);
	TAP_RUN(shared_media);
	TAP_RUN(second_description);
	TAP_RUN(killed_writer);
	TAP_RUN(lost_media);
	TAP_RUN(sectors_become_bytes);
	unlink(path);
	return tap_end();
}
