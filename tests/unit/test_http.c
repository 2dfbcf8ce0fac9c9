/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of the HTTP server, with a client in this process: an answer in transit is sent
 * completely, and a request without an answer gets one. This program observes the server's wait for
 * answers (--wrap), so that no client has to be fast. The main thread is the control reactor.
 */
#include "api/http.h"
#include "tap.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BODY_BYTES  (8u << 20) /* more than a socket buffer holds */
#define PATIENCE_S  60
#define REQUEST     "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
#define ANSWERS_MAX 3

int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *deadline);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *deadline);

struct client {
	pthread_t thread;
	int fd;
	sem_t may_read;
	size_t got_bytes;
	char head[16]; /* the first bytes of the answer */
};

static char folder[] = "/tmp/weft-http-XXXXXX";
static char path[64];
static struct reactor *control;
static struct http_server *server;
static struct reactor_msg stop_msg;
static struct client clients[ANSWERS_MAX];
static struct http_request *late[ANSWERS_MAX]; /* requests that were not answered */
static unsigned client_count, arrived_count, waits;
static bool answers;

static void clients_read(void)
{
	for (unsigned i = 0; i < client_count; i++)
		sem_post(&clients[i].may_read);
}

/* The clients read only now: the server has to wait for what is unsent here. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *deadline)
{
	struct timespec later = *deadline;

	if (waits++ == 0)
		clients_read();
	later.tv_sec += PATIENCE_S;
	return __real_pthread_cond_timedwait(cond, lock, &later);
}

static void *client_run(void *arg)
{
	struct client *client = arg;
	char buf[65536];
	ssize_t len;

	sem_wait(&client->may_read);
	while ((len = recv(client->fd, buf, sizeof(buf), 0)) > 0) {
		if (client->got_bytes == 0)
			memcpy(client->head, buf, sizeof(client->head) - 1);
		client->got_bytes += (size_t)len;
	}
	return NULL;
}

static void client_start(struct client *client)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	memset(client, 0, sizeof(*client));
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(client->fd >= 0 && sem_init(&client->may_read, 0, 0) == 0);
	CHECK(connect(client->fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	CHECK(send(client->fd, REQUEST, strlen(REQUEST), 0) == (ssize_t)strlen(REQUEST));
	CHECK(pthread_create(&client->thread, NULL, client_run, client) == 0);
}

static void on_stopped(void *arg)
{
	reactor_stop(control);
}

static void stop(struct reactor_msg *msg)
{
	http_server_stop(server, on_stopped, NULL);
}

static void on_request(void *arg, struct http_request *request)
{
	struct http_answer answer = {.status = 200, .body_bytes = BODY_BYTES};

	if (answers) {
		answer.taken_body = calloc(1, BODY_BYTES);
		CHECK(answer.taken_body);
		http_request_answer(request, &answer);
	} else {
		late[arrived_count] = request;
	}
	if (++arrived_count == client_count)
		reactor_post(control, &stop_msg, stop);
}

/* Runs a server that ends as soon as all requests have arrived. */
static void play(unsigned count, bool with_answers)
{
	struct reactor_config config = {.index = 0, .cpu = -1};
	struct http_error error;

	client_count = count;
	answers = with_answers;
	arrived_count = waits = 0;
	CHECK(reactor_create(&config, &control) == 0);
	CHECK(http_server_start(&(struct http_options){.control = control,
						       .socket_path = path,
						       .handle = on_request},
				&server, &error) == 0);
	for (unsigned i = 0; i < count; i++)
		client_start(&clients[i]);
	reactor_run(control);
	/* Again, in case the server did not wait. */
	clients_read();
	for (unsigned i = 0; i < count; i++) {
		pthread_join(clients[i].thread, NULL);
		close(clients[i].fd);
		sem_destroy(&clients[i].may_read);
	}
	reactor_destroy(control);
}

static void answers_leave_before_the_server_ends(void)
{
	for (unsigned count = 1; count <= ANSWERS_MAX; count++) {
		play(count, true);
		for (unsigned i = 0; i < count; i++) {
			EXPECT_STR("HTTP/1.1 200 OK", clients[i].head);
			EXPECT_THAT(clients[i].got_bytes > BODY_BYTES,
				    "answer %u of %u: %zu bytes of %u", i, count,
				    clients[i].got_bytes, BODY_BYTES);
		}
	}
}

static void open_requests_are_told_of_the_end(void)
{
	play(ANSWERS_MAX, false);
	for (unsigned i = 0; i < ANSWERS_MAX; i++) {
		EXPECT_STR("HTTP/1.1 503 Se", clients[i].head);
		/* Too late for the client: this only frees the request. */
		http_request_answer(late[i], &(struct http_answer){.status = 200});
	}
}

int main(void)
{
	CHECK(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/socket", folder);
	TAP_RUN(answers_leave_before_the_server_ends);
	TAP_RUN(open_requests_are_told_of_the_end);
	rmdir(folder);
	return tap_end();
}
