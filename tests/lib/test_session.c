/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of a session blocks every signal: signal handlers of a program that uses libweft must
 * not run on a thread that the program does not know, such as the session that asks a discovery
 * service.
 */
#include "../unit/tap.h"
#include "lib/session.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Accepts connections into its backlog and never answers. */
static int silent_listener(struct net_addr *ret_addr)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[64];

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&in, sizeof(in)) == 0 && listen(fd, 4) == 0 &&
	      getsockname(fd, (struct sockaddr *)&in, &len) == 0);
	snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(in.sin_port));
	CHECK(net_addr_parse(text, 0, ret_addr) == 0);
	return fd;
}

static unsigned threads_of_process(uint64_t blocked[8])
{
	DIR *dir = opendir("/proc/self/task");
	unsigned count = 0;

	CHECK(dir != NULL);
	for (struct dirent *entry; (entry = readdir(dir)) != NULL && count < 8;) {
		char path[300], line[256];
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		file = fopen(path, "r");
		if (file == NULL)
			continue; /* the thread has ended */
		while (fgets(line, sizeof(line), file) != NULL) {
			if (strncmp(line, "SigBlk:", 7) == 0)
				blocked[count++] = strtoull(line + 7, NULL, 16);
		}
		fclose(file);
	}
	closedir(dir);
	return count;
}

static void *open_main(void *arg)
{
	const struct host_config *config = arg;
	struct host_error error;
	struct session *session;

	EXPECT(session_open(config, &session, &error) != 0);
	return NULL;
}

/* The blockable signals that programs use. */
static bool blocks_all(uint64_t blocked)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF};

	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		if ((blocked >> (signals[i] - 1) & 1) == 0)
			return false;
	}
	return true;
}

static void its_thread_takes_no_signals(void)
{
	struct host_config config = {.subsystem_nqn = "nqn.2026-11.io.weft:x",
				     .host_nqn = "nqn.2026-11.io.weft:host",
				     .connect_timeout_ms = 5000};
	int fd = silent_listener(&config.addr.net);
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	unsigned count, open_threads = 0;
	uint64_t blocked[8];
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, open_main, &config) == 0);
	/* The connection comes from the session's thread, so that thread runs. */
	EXPECT_EQ(1, poll(&ready, 1, 5000));
	count = threads_of_process(blocked);
	for (unsigned i = 0; i < count; i++)
		open_threads += !blocks_all(blocked[i]);
	/* This thread and the thread that waits in session_open. */
	EXPECT(count >= 3);
	EXPECT_EQ(2, open_threads);
	pthread_join(thread, NULL);
	close(fd);
}

int main(void)
{
	TAP_RUN(its_thread_takes_no_signals);
	return tap_end();
}
