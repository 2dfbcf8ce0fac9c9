/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of the raw ceiling: one thread, one prefaulted mapping, direct system calls.
 *
 * A turn receives from every connection (up to 256 KiB each), copies written data into the mapping
 * (data of 32 KiB or more is received directly into it), and answers all requests by one gathered
 * send per connection, straight from the mapping. While spinning, the server checks the listener
 * and signals only now and then; with --sleep it blocks in epoll_wait between turns.
 */
#include "echo.h"

#include "base/check.h"
#include "base/text.h"

#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define DIRECT_MIN_BYTES    (32 * 1024) /* a write of this size gets its own receive */
#define PREFETCH_MAX_BYTES  16384
#define TURNS_BETWEEN_LOOKS 512 /* checks of listener and signals, while spinning */

struct conn {
	int fd;
	bool is_blocked; /* the socket is full; epoll reports when it is not */
	bool is_large;   /* the last request was a large write */
	uint32_t header_bytes;
	uint32_t data_left_bytes;
	uint8_t *data_at;
	struct echo_request request; /* the request being received */
	struct echo_gather out;
};

struct server {
	uint8_t *memory;
	uint64_t memory_bytes;
	bool is_sleeping;
	int listen_fd;
	int signal_fd;
	int epoll_fd;
	struct conn **conns;
	unsigned conn_count;
	unsigned conn_room;
	uint8_t *bulk;
};

/* ---- requests ------------------------------------------------------------------------------- */

static int request_answer(struct server *server, struct conn *conn)
{
	const struct echo_request *request = &conn->request;
	struct echo_response response = {
		.magic = ECHO_MAGIC,
		.op = request->op,
		.tag = request->tag,
		.len_bytes = request->len_bytes,
		.offset = request->offset,
	};
	bool is_read = request->op == ECHO_READ;

	conn->header_bytes = 0;
	return echo_gather_push(&conn->out, &response, sizeof(response),
				is_read ? server->memory + request->offset : NULL,
				is_read ? request->len_bytes : 0)
		       ? 0
		       : -EPROTO;
}

/* Like the target: the data, which is sent at the end of the turn, is loaded from memory
 * meanwhile. */
static void data_prefetch(const uint8_t *data, uint32_t len_bytes)
{
	if (len_bytes > PREFETCH_MAX_BYTES)
		return;
	for (uint32_t at = 0; at < len_bytes; at += 64)
		__builtin_prefetch(data + at, 0, 2);
}

/* The header is complete: answers a read, sets the destination of a write's data. */
static int request_begin(struct server *server, struct conn *conn)
{
	const struct echo_request *request = &conn->request;

	if (request->magic != ECHO_MAGIC || request->len_bytes == 0 ||
	    request->len_bytes > ECHO_IO_MAX_BYTES || request->offset > server->memory_bytes ||
	    request->len_bytes > server->memory_bytes - request->offset ||
	    (request->op != ECHO_READ && request->op != ECHO_WRITE))
		return -EPROTO;
	conn->is_large = false;
	if (request->op == ECHO_READ) {
		data_prefetch(server->memory + request->offset, request->len_bytes);
		return request_answer(server, conn);
	}
	conn->data_at = server->memory + request->offset;
	conn->data_left_bytes = request->len_bytes;
	conn->is_large = request->len_bytes >= DIRECT_MIN_BYTES;
	return 0;
}

static int data_took(struct server *server, struct conn *conn, size_t len_bytes)
{
	conn->data_at += len_bytes;
	conn->data_left_bytes -= (uint32_t)len_bytes;
	return conn->data_left_bytes == 0 ? request_answer(server, conn) : 0;
}

static int bytes_parse(struct server *server, struct conn *conn, const uint8_t *at, size_t left)
{
	int res = 0;

	while (left > 0 && res == 0) {
		size_t len;

		if (conn->data_left_bytes > 0) {
			len = left < conn->data_left_bytes ? left : conn->data_left_bytes;
			memcpy(conn->data_at, at, len);
			res = data_took(server, conn, len);
		} else {
			size_t missing = sizeof(conn->request) - conn->header_bytes;

			len = left < missing ? left : missing;
			memcpy((uint8_t *)&conn->request + conn->header_bytes, at, len);
			conn->header_bytes += (uint32_t)len;
			if (conn->header_bytes == sizeof(conn->request))
				res = request_begin(server, conn);
		}
		at += len;
		left -= len;
	}
	return res;
}

/*
 * One receive and its processing. 0, or -errno when the connection has ended. After a large write
 * another one is expected: only its header is received into memory that must be copied.
 */
static int conn_receive(struct server *server, struct conn *conn)
{
	size_t direct_bytes = conn->is_large ? conn->data_left_bytes : 0;
	size_t header_bytes = sizeof(conn->request) - conn->header_bytes % sizeof(conn->request);
	size_t bulk_bytes = conn->is_large ? header_bytes : ECHO_BULK_BYTES;
	struct iovec iov[2] = {{conn->data_at, direct_bytes}, {server->bulk, bulk_bytes}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t len;
	int res = 0;

	if (direct_bytes > 0)
		len = recvmsg(conn->fd, &msg, MSG_DONTWAIT);
	else
		len = recv(conn->fd, server->bulk, bulk_bytes, MSG_DONTWAIT);
	if (len == 0)
		return -ECONNRESET;
	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (direct_bytes > 0) {
		size_t took = (size_t)len < direct_bytes ? (size_t)len : direct_bytes;

		res = data_took(server, conn, took);
		len -= (ssize_t)took;
	}
	return res == 0 ? bytes_parse(server, conn, server->bulk, (size_t)len) : res;
}

/* ---- connections ---------------------------------------------------------------------------- */

static void epoll_set(const struct server *server, int operation, int fd, uint32_t events,
		      void *ptr)
{
	struct epoll_event event = {.events = events, .data.ptr = ptr};

	CHECK(epoll_ctl(server->epoll_fd, operation, fd, &event) == 0);
}

static void conn_close(struct server *server, unsigned index, int res)
{
	struct conn *conn = server->conns[index];

	if (res == -EPROTO)
		fprintf(stderr, "echo: a client's request is wrong; its connection is closed\n");
	close(conn->fd);
	free(conn);
	server->conns[index] = server->conns[--server->conn_count];
}

static void conn_add(struct server *server, int fd)
{
	struct conn *conn = calloc(1, sizeof(*conn));
	int one = 1;

	CHECK(conn != NULL);
	conn->fd = fd;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (server->conn_count == server->conn_room) {
		server->conn_room = server->conn_room ? server->conn_room * 2 : 16;
		server->conns = realloc(server->conns, server->conn_room * sizeof(struct conn *));
		CHECK(server->conns != NULL);
	}
	server->conns[server->conn_count++] = conn;
	if (server->is_sleeping)
		epoll_set(server, EPOLL_CTL_ADD, fd, EPOLLIN, conn);
}

static void accept_all(struct server *server)
{
	int fd;

	while ((fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		conn_add(server, fd);
}

/* Receives, and sends all answers in one send. */
static int conn_turn(struct server *server, struct conn *conn)
{
	int res = conn_receive(server, conn);
	bool was_blocked = conn->is_blocked;

	if (res == 0 && conn->out.count > 0)
		res = echo_gather_flush(&conn->out, conn->fd);
	conn->is_blocked = conn->out.count > 0;
	if (res == 0 && server->is_sleeping && conn->is_blocked != was_blocked)
		epoll_set(server, EPOLL_CTL_MOD, conn->fd,
			  EPOLLIN | (conn->is_blocked ? EPOLLOUT : 0), conn);
	return res;
}

/* ---- the loop ------------------------------------------------------------------------------- */

/* Waits for any event; false when a signal requests the end. */
static bool events_take(struct server *server, int timeout_ms)
{
	struct epoll_event events[64];
	int count = epoll_wait(server->epoll_fd, events, 64, timeout_ms);

	for (int i = 0; i < count; i++) {
		struct conn *conn = events[i].data.ptr;
		int res;

		if (events[i].data.ptr == &server->signal_fd)
			return false;
		if (events[i].data.ptr == &server->listen_fd) {
			accept_all(server);
			continue;
		}
		res = conn_turn(server, conn);
		for (unsigned at = 0; res != 0 && at < server->conn_count; at++) {
			if (server->conns[at] == conn) {
				conn_close(server, at, res);
				break;
			}
		}
	}
	return true;
}

static void server_spin(struct server *server)
{
	for (unsigned turn = 0;; turn++) {
		if (server->conn_count == 0 || turn % TURNS_BETWEEN_LOOKS == 0) {
			/* Without a connection there is nothing to spin for. */
			if (!events_take(server, server->conn_count == 0 ? -1 : 0))
				return;
		}
		for (unsigned i = server->conn_count; i-- > 0;) {
			int res = conn_turn(server, server->conns[i]);

			if (res != 0)
				conn_close(server, i, res);
		}
	}
}

static void server_run(struct server *server)
{
	if (!server->is_sleeping) {
		server_spin(server);
		return;
	}
	while (events_take(server, -1))
		;
}

/* ---- start ---------------------------------------------------------------------------------- */

static int server_listen(struct server *server, const struct net_addr *addr)
{
	struct sockaddr_in6 bound;
	socklen_t bound_bytes = sizeof(bound);
	int one = 1;

	server->listen_fd =
		socket(addr->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (server->listen_fd < 0)
		return -errno;
	setsockopt(server->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(server->listen_fd, (const struct sockaddr *)&addr->storage, addr->len_bytes) !=
		    0 ||
	    listen(server->listen_fd, 4096) != 0 ||
	    getsockname(server->listen_fd, (struct sockaddr *)&bound, &bound_bytes) != 0)
		return -errno;
	/* The port has the same offset in both families. */
	printf("listening %u\n", ntohs(bound.sin6_port));
	fflush(stdout);
	return 0;
}

static void memory_fill(struct server *server)
{
	server->memory = mmap(NULL, server->memory_bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(server->memory != MAP_FAILED);
	/* Like the target's memory media: a hint, which may be refused. */
	(void)madvise(server->memory, server->memory_bytes, MADV_HUGEPAGE);
	for (uint64_t offset = 0; offset < server->memory_bytes; offset += sizeof(offset))
		memcpy(server->memory + offset, &offset, sizeof(offset));
}

static int server_start(struct server *server, const struct net_addr *addr)
{
	sigset_t signals;

	echo_raise_file_limit();
	memory_fill(server);
	server->bulk = aligned_alloc(4096, ECHO_BULK_BYTES);
	CHECK(server->bulk != NULL);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	CHECK(sigprocmask(SIG_BLOCK, &signals, NULL) == 0);
	server->signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	CHECK(server->signal_fd >= 0 && server->epoll_fd >= 0);
	epoll_set(server, EPOLL_CTL_ADD, server->signal_fd, EPOLLIN, &server->signal_fd);
	int res = server_listen(server, addr);

	if (res == 0)
		epoll_set(server, EPOLL_CTL_ADD, server->listen_fd, EPOLLIN, &server->listen_fd);
	return res;
}

static void server_free(struct server *server)
{
	while (server->conn_count > 0)
		conn_close(server, 0, 0);
	free(server->conns);
	free(server->bulk);
	munmap(server->memory, server->memory_bytes);
	close(server->listen_fd);
	close(server->signal_fd);
	close(server->epoll_fd);
}

static void help_print(void)
{
	printf("Usage: echo server [OPTION]...\n\n"
	       "Answers reads from memory and writes into it until SIGTERM; prints 'listening "
	       "PORT'.\n\n"
	       "      --listen ADDR:PORT    where; port 0 takes a free one (127.0.0.1:0)\n"
	       "      --memory SIZE         how much, a multiple of 4096 (256M)\n"
	       "      --sleep               block between turns instead of spinning\n"
	       "  -h, --help                this text\n");
}

int echo_server_main(int argc, char **argv)
{
	static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
						{"memory", required_argument, NULL, 'm'},
						{"sleep", no_argument, NULL, 's'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	struct server server = {.memory_bytes = 256 << 20};
	struct net_addr addr;
	int flag, res;

	CHECK(net_addr_parse("127.0.0.1:0", 0, &addr) == 0);
	while ((flag = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (flag == 'h') {
			help_print();
			return 0;
		}
		if (flag == 's')
			server.is_sleeping = true;
		else if (flag == '?')
			return echo_usage_error("unknown option, or one without its value");
		if (flag == 'l' && net_addr_parse(optarg, 0, &addr) != 0)
			return echo_usage_error("--listen: \"%s\" is not ADDR:PORT", optarg);
		if (flag == 'm' && (text_parse_size(optarg, &server.memory_bytes) != 0 ||
				    server.memory_bytes == 0 || server.memory_bytes % 4096 != 0))
			return echo_usage_error("--memory: \"%s\" is not a multiple of 4096",
						optarg);
	}
	if (optind < argc)
		return echo_usage_error("what is \"%s\"?", argv[optind]);
	res = server_start(&server, &addr);
	if (res != 0) {
		fprintf(stderr, "echo: cannot listen: %s\n", strerror(-res));
		return 1;
	}
	server_run(&server);
	server_free(&server);
	return 0;
}
