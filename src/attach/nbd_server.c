/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NBD server: its Unix socket, its clients, and the loop that waits for clients, libweft and
 * signals. Main thread.
 *
 * SIGTERM or SIGINT stops the server in order: no client is accepted and no request taken any more,
 * and requests in flight are finished and answered. A second signal ends the process at once.
 *
 * Clients know a size and a block size. When the namespace is formatted with another block size, or
 * shrinks, all clients are disconnected in the same order, and later clients get the new values.
 */
#include "attach/nbd.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "base/unix_socket.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LISTEN_BACKLOG  16
#define TICK_MS         1000
#define ACCEPT_PAUSE_NS (NS_PER_S / 2)

enum poll_index {
	POLL_SIGNAL,
	POLL_WEFT,
	POLL_EVENT, /* eventfd of the subsystem */
	POLL_LISTENER,
	POLL_CLIENTS
};

struct nbd_server {
	const struct nbd_options *options;
	int listener; /* -1 once the server stops */
	struct unix_name name;
	int signals;
	bool is_stopping;
	bool is_reopening; /* waits until all clients of the former format are gone, then reopens */
	uint64_t accept_at_ns; /* time to accept again; 0: now */
	bool has_told_accept;  /* the failure to accept was reported */
	struct list clients;
	unsigned client_count;
};

/* ---- the socket ----------------------------------------------------------------------------- */

static int server_listen(struct nbd_server *server)
{
	const struct nbd_options *options = server->options;
	int res = unix_socket_listen(options->socket_path, LISTEN_BACKLOG, &server->listener,
				     &server->name);

	if (res == -EADDRINUSE)
		tool_error(options->command,
			   "%s: another process listens on this socket; stop that process or "
			   "choose another path",
			   options->socket_path);
	else if (res == -EEXIST)
		tool_error(options->command,
			   "%s exists and is not a socket; remove it or choose another path",
			   options->socket_path);
	else if (res != 0)
		tool_error(options->command, "cannot listen on %s: %s", options->socket_path,
			   strerror(-res));
	return res;
}

/* ---- clients -------------------------------------------------------------------------------- */

/* Reads the present state of the namespace, which may have grown since the last client
 * connected. */
static int export_fill(const struct nbd_options *options, struct nbd_export *ret_export)
{
	const struct weft_ns_info *info = &options->attached->handle.info;
	enum attach_news news = attach_ns_look(options->attached);

	if (news == ATTACH_CHANGED) {
		/* Makes server_look disconnect the clients. */
		options->attached->is_stale = true;
		return -ESTALE;
	}
	if (news == ATTACH_GONE)
		return -ENXIO;
	memset(ret_export, 0, sizeof(*ret_export));
	text_copy(ret_export->name, sizeof(ret_export->name), options->export_name);
	text_copy(ret_export->description, sizeof(ret_export->description), options->description);
	ret_export->block_bytes = info->block_bytes;
	ret_export->size_bytes = info->block_count * info->block_bytes;
	ret_export->is_read_only = options->is_read_only || info->is_read_only;
	return 0;
}

/* The client stays in the backlog and the listener readable. Without a pause the loop would spin
 * until descriptors or memory are available again. */
static void accept_failed(struct nbd_server *server, int error)
{
	if (error == EINTR || error == EAGAIN || error == ECONNABORTED)
		return;
	server->accept_at_ns = clock_monotonic_ns() + ACCEPT_PAUSE_NS;
	if (!server->has_told_accept)
		tool_error(server->options->command, "cannot accept a client: %s; trying again",
			   strerror(error));
	server->has_told_accept = true;
}

static void server_accept(struct nbd_server *server)
{
	struct nbd_client *client = NULL;
	struct nbd_export export;
	int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		accept_failed(server, errno);
		return;
	}
	server->has_told_accept = false;
	if (export_fill(server->options, &export) == 0)
		client = nbd_client_create(server->options, fd, &export, clock_monotonic_ns());
	if (client == NULL) {
		close(fd);
		return;
	}
	list_push_back(&server->clients, &client->node);
	server->client_count++;
	nbd_client_work(client);
}

static void clients_reap(struct nbd_server *server)
{
	list_for_each_safe(node, &server->clients) {
		struct nbd_client *client = list_entry(node, struct nbd_client, node);

		if (!nbd_client_is_over(client))
			continue;
		list_remove(&client->node);
		server->client_count--;
		nbd_client_destroy(client);
	}
}

/* Breaks clients that exceed the deadline for the handshake, or for reading the last replies. */
static void clients_hurry(struct nbd_server *server)
{
	uint64_t now_ns = clock_monotonic_ns();

	list_for_each(node, &server->clients) {
		struct nbd_client *client = list_entry(node, struct nbd_client, node);
		bool must_hurry = server->is_stopping || server->is_reopening ||
				  nbd_client_is_shaking_hands(client);

		if (must_hurry && now_ns >= client->deadline_ns && !client->is_broken)
			nbd_client_break(client);
	}
}

static bool clients_need_clock(const struct nbd_server *server)
{
	list_for_each(node, &server->clients)
		if (nbd_client_is_shaking_hands(list_entry(node, struct nbd_client, node)))
			return true;
	return server->is_stopping || server->is_reopening || server->accept_at_ns > 0;
}

static void server_announce(const struct nbd_options *options)
{
	struct nbd_export export;
	char size[32];

	if (export_fill(options, &export) != 0)
		return;
	printf("%s: %s, blocks of %" PRIu32 " bytes%s\n"
	       "Connect with: nbd+unix:///%s?socket=%s\n",
	       options->description, text_format_size(export.size_bytes, size, sizeof(size)),
	       export.block_bytes, export.is_read_only ? ", read-only" : "", options->export_name,
	       options->socket_path);
	fflush(stdout);
}

/* ---- the loop ------------------------------------------------------------------------------- */

/* Ends all clients: requests in flight are finished and answered, then the sockets are closed. */
static void clients_end(struct nbd_server *server)
{
	uint64_t deadline_ns = clock_monotonic_ns() + NBD_STOP_NS;

	list_for_each(node, &server->clients) {
		struct nbd_client *client = list_entry(node, struct nbd_client, node);

		client->is_ending = true;
		client->deadline_ns = deadline_ns;
		nbd_client_work(client);
	}
}

static void server_stop(struct nbd_server *server)
{
	struct signalfd_siginfo info;

	if (read(server->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (server->is_stopping) {
		tool_error(server->options->command, "second signal: ending without cleanup");
		_exit(EXIT_FAILURE);
	}
	server->is_stopping = true;
	/* Remove the name first: a process that finds the name must find a server that accepts. */
	unix_name_remove(&server->name);
	close(server->listener);
	server->listener = -1;
	clients_end(server);
}

/* Ends all clients if the namespace has another format than the clients know. */
static void server_look(struct nbd_server *server)
{
	struct attach_ns *attached = server->options->attached;

	if (server->is_reopening || !attach_ns_must_look(attached) ||
	    attach_ns_look(attached) != ATTACH_CHANGED)
		return;
	server->is_reopening = true;
	clients_end(server);
}

/* Reopens the namespace when all clients are gone, and their requests with them. 0, or -errno after
 * a message. */
static int server_reopen(struct nbd_server *server)
{
	struct attach_ns *attached = server->options->attached;
	int res;

	if (!server->is_reopening || server->client_count > 0 || server->is_stopping)
		return 0;
	res = attach_ns_reopen(attached);
	server->is_reopening = false;
	attached->is_stale = false;
	if (res == 0)
		server_announce(server->options);
	return res;
}

static unsigned polls_fill(const struct nbd_server *server, struct pollfd *polls)
{
	bool accepts = server->listener >= 0 && server->client_count < NBD_CLIENTS_MAX &&
		       !server->is_reopening && server->accept_at_ns == 0;
	unsigned count = POLL_CLIENTS;

	polls[POLL_SIGNAL] = (struct pollfd){.fd = server->signals, .events = POLLIN};
	polls[POLL_WEFT] =
		(struct pollfd){.fd = weft_poll_fd(server->options->weft), .events = POLLIN};
	polls[POLL_EVENT] =
		(struct pollfd){.fd = server->options->attached->event_fd, .events = POLLIN};
	polls[POLL_LISTENER] =
		(struct pollfd){.fd = accepts ? server->listener : -1, .events = POLLIN};
	list_for_each(node, &server->clients) {
		const struct nbd_client *client = list_entry(node, struct nbd_client, node);

		/* A broken client waits only for libweft. */
		polls[count++] = (struct pollfd){.fd = client->is_broken ? -1 : client->fd,
						 .events = client->poll_events};
	}
	return count;
}

/* `polls` is in the order of polls_fill. */
static void clients_serve(struct nbd_server *server, const struct pollfd *polls, bool has_ended)
{
	unsigned at = POLL_CLIENTS;

	list_for_each(node, &server->clients) {
		struct nbd_client *client = list_entry(node, struct nbd_client, node);
		short events = polls[at++].revents;

		if (client->is_broken)
			continue;
		if (events != 0 || has_ended || server->is_stopping)
			nbd_client_work(client);
		/* On hang-up no reply can be delivered. A client with POLLIN wanted is kept,
		 * because received bytes may be left to read. */
		if ((events & (POLLHUP | POLLERR)) && !(client->poll_events & POLLIN))
			nbd_client_break(client);
	}
}

/* 0, or -errno after a message. */
static int server_turn_end(struct nbd_server *server)
{
	if (server->accept_at_ns > 0 && clock_monotonic_ns() >= server->accept_at_ns)
		server->accept_at_ns = 0;
	clients_hurry(server);
	server_look(server);
	clients_reap(server);
	return server_reopen(server);
}

static int server_run(struct nbd_server *server)
{
	struct pollfd polls[POLL_CLIENTS + NBD_CLIENTS_MAX];

	while (!server->is_stopping || server->client_count > 0) {
		unsigned count = polls_fill(server, polls);
		int res = poll(polls, count, clients_need_clock(server) ? TICK_MS : -1);
		bool has_ended = false;

		if (res < 0 && errno != EINTR) {
			tool_error(server->options->command, "cannot wait: %s", strerror(errno));
			return -1;
		}
		if (res <= 0) {
			if (server_turn_end(server) != 0)
				return -1;
			continue;
		}
		if (polls[POLL_SIGNAL].revents)
			server_stop(server);
		if (polls[POLL_WEFT].revents)
			has_ended = weft_poll(server->options->weft, 0, 0) > 0;
		clients_serve(server, polls, has_ended);
		if (polls[POLL_LISTENER].revents && !server->is_stopping)
			server_accept(server);
		if (server_turn_end(server) != 0)
			return -1;
	}
	return 0;
}

int nbd_serve(const struct nbd_options *options)
{
	struct nbd_server server = {.options = options, .listener = -1, .signals = -1};
	sigset_t set;
	int res;

	list_init(&server.clients);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	server.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (server.signals < 0) {
		tool_error(options->command, "cannot wait for signals: %s", strerror(errno));
		return -1;
	}
	if (server_listen(&server) != 0) {
		close(server.signals);
		return -1;
	}
	server_announce(options);
	res = server_run(&server);
	if (server.listener >= 0) {
		unix_name_remove(&server.name);
		close(server.listener);
	}
	close(server.signals);
	return res;
}
