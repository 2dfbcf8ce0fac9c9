/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of src/base/log_writer.c: order, dropped lines and their report, the end of the writer and
 * of the process. Each case runs in a child whose standard error is a pipe of one page. The case
 * decides when the pipe is read; child and parent synchronize by bytes in two other pipes.
 */
#include "base/check.h"
#include "base/clock.h"
#include "base/log_writer.h"
#include "tap.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS          3
#define LINES_PER_THREAD 600
#define FLOOD_LINES      5000
#define TEXT_BYTES       (1u << 20)

_Static_assert(THREADS *LINES_PER_THREAD < LOG_WRITER_LINES, "none may be lost");

static int to_child[2], to_parent[2], error_pipe[2];
static char text[TEXT_BYTES];

static void tell(const int *fds)
{
	CHECK(write(fds[1], "!", 1) == 1);
}

static void await(const int *fds)
{
	char byte;

	CHECK(read(fds[0], &byte, 1) == 1);
}

/* ---- running a child ----------------------------------------------------------------------- */

static pid_t child_start(void (*fn)(void))
{
	pid_t child;

	CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0 && pipe(error_pipe) == 0);
	CHECK(fcntl(error_pipe[1], F_SETPIPE_SZ, 4096) > 0);
	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(error_pipe[0]);
		dup2(error_pipe[1], STDERR_FILENO);
		close(error_pipe[1]);
		fn();
		_exit(0);
	}
	close(error_pipe[1]);
	return child;
}

/* Reads all output of the child into `text`. Returns the wait status. */
static int child_end(pid_t child)
{
	size_t used = 0;
	int status = -1;
	ssize_t len;

	while ((len = read(error_pipe[0], text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)len;
	text[used] = 0;
	EXPECT_EQ(child, waitpid(child, &status, 0));
	close(error_pipe[0]);
	for (unsigned i = 0; i < 2; i++) {
		close(to_child[i]);
		close(to_parent[i]);
	}
	return status;
}

static bool has_left(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- order --------------------------------------------------------------------------------- */

static void *log_numbers(void *arg)
{
	for (unsigned i = 0; i < LINES_PER_THREAD; i++)
		log_info("tests", "thread %u line %u", *(unsigned *)arg, i);
	return NULL;
}

static void log_from_threads(void)
{
	pthread_t threads[THREADS];
	unsigned numbers[THREADS];

	CHECK(log_writer_start() == 0);
	for (unsigned i = 0; i < THREADS; i++) {
		numbers[i] = i;
		CHECK(pthread_create(&threads[i], NULL, log_numbers, &numbers[i]) == 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	log_writer_stop();
}

static void lines_keep_their_order(void)
{
	int status = child_end(child_start(log_from_threads));
	unsigned next[THREADS] = {0}, wrong = 0;
	char *rest = NULL;

	EXPECT(has_left(status));
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const char *at = strstr(line, "Z info tests: thread ");
		unsigned thread = THREADS, number = 0;

		if (!at || sscanf(at, "Z info tests: thread %u line %u", &thread, &number) != 2 ||
		    thread >= THREADS || number != next[thread])
			wrong++;
		else
			next[thread]++;
	}
	EXPECT_EQ(0, wrong);
	for (unsigned i = 0; i < THREADS; i++)
		EXPECT_EQ(LINES_PER_THREAD, next[i]);
}

/* ---- a pipe without a reader --------------------------------------------------------------- */

static void flood(void)
{
	CHECK(log_writer_start() == 0);
	for (unsigned i = 0; i < FLOOD_LINES; i++)
		log_info("tests", "flood %u", i);
	/* Reached only if log_info never waited for the pipe. */
	tell(to_parent);
	await(to_child);
	log_writer_flush();
	log_info("tests", "after the flood");
	log_writer_stop();
}

static void what_is_dropped_is_counted(void)
{
	pid_t child = child_start(flood);
	unsigned written = 0, lost = 0, lost_lines = 0, wrong = 0;
	char *rest = NULL, *last = NULL;
	int status;

	await(to_parent);
	tell(to_child);
	status = child_end(child);
	EXPECT(has_left(status));
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const char *at = strstr(line, " tests: flood ");
		unsigned number;

		last = line;
		if (at && sscanf(at, " tests: flood %u", &number) == 1) {
			wrong += number != written + lost;
			written++;
		}
		at = strstr(line, " warn log: ");
		if (at && sscanf(at, " warn log: %u lines were lost here", &number) == 1) {
			lost += number;
			lost_lines++;
		}
	}
	EXPECT(written >= LOG_WRITER_LINES);
	/* Once, or more often if the writer starts late. */
	EXPECT(lost_lines >= 1);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(FLOOD_LINES, written + lost);
	EXPECT(last && strstr(last, " info tests: after the flood"));
}

static void stop_unread(void)
{
	uint64_t start_ns;

	CHECK(log_writer_start() == 0);
	for (unsigned i = 0; i < FLOOD_LINES; i++)
		log_info("tests", "flood %u", i);
	start_ns = clock_monotonic_ns();
	log_writer_stop();
	CHECK(clock_monotonic_ns() - start_ns >= NS_PER_S);
	/* Writing this line would block for ever. */
	log_info("tests", "nobody sees this");
	tell(to_parent);
	await(to_child);
}

static void stop_gives_up_on_a_full_pipe(void)
{
	pid_t child = child_start(stop_unread);
	int status;

	await(to_parent);
	tell(to_child);
	status = child_end(child);
	EXPECT(has_left(status));
	EXPECT(strstr(text, " tests: flood 0\n") && !strstr(text, "nobody sees this"));
}

/* ---- ends ---------------------------------------------------------------------------------- */

static void fail_a_check(void)
{
	signal(SIGABRT, SIG_DFL);
	CHECK(log_writer_start() == 0);
	for (unsigned i = 0; i < 100; i++)
		log_info("tests", "before %u", i);
	CHECK(1 + 1 == 3);
}

static void a_failed_check_is_the_last_line(void)
{
	int status = child_end(child_start(fail_a_check));
	const char *last_line = strstr(text, " tests: before 99\n");
	const char *check = strstr(text, "check failed: 1 + 1 == 3\n");

	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	EXPECT(last_line && check && last_line < check);
}

static void start_twice(void)
{
	log_info("tests", "one");
	CHECK(log_writer_start() == 0);
	log_info("tests", "two");
	log_writer_stop();
	log_info("tests", "three");
	CHECK(log_writer_start() == 0);
	log_info("tests", "four");
	log_writer_flush();
	log_writer_stop();
	log_writer_stop();
	log_writer_flush();
	log_info("tests", "five");
}

static void lines_are_written_without_it_too(void)
{
	static const char *const words[] = {"one", "two", "three", "four", "five"};
	int status = child_end(child_start(start_twice));
	const char *at = text;

	EXPECT(has_left(status));
	for (size_t i = 0; i < ARRAY_LEN(words) && at; i++) {
		at = strstr(at, words[i]);
		EXPECT(at);
	}
}

int main(void)
{
	TAP_RUN(lines_keep_their_order);
	TAP_RUN(what_is_dropped_is_counted);
	TAP_RUN(stop_gives_up_on_a_full_pipe);
	TAP_RUN(a_failed_check_is_the_last_line);
	TAP_RUN(lines_are_written_without_it_too);
	return tap_end();
}
