/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server: moves requests from libmicrohttpd's thread to the control reactor and back.
 *
 * Functions named mhd_* run on libmicrohttpd's thread (one per listener), the others on the control
 * reactor. A request belongs to libmicrohttpd's thread until it is posted, and again from its
 * answer on. In between the control reactor owns the request, and its connection is suspended. The
 * lock guards the list of connections, whose deadlines the control reactor enforces, and the counts
 * that the end waits for.
 */
#include "api/http.h"

#include "api/http_conn.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define REAPER_STEP_NS    NS_PER_S
#define LATE_STEPS_MAX    45 /* of the reaper, for a request that waits for the HTTP thread */
#define STOP_WAIT_S       1
#define DISCARD_FACTOR    4 /* limit for reading a body that is too large, in HTTP_BODY_BYTES_MAX */
#define LISTENERS_MAX     2
#define NO_DEADLINE       UINT64_MAX
#define CONNECTIONS_ROOM  (4 * HTTP_CONNECTIONS_MAX) /* with connections that are being closed */
#define CONNECTION_MEMORY (64 * 1024) /* for request line, headers, and buffers of the answer */

struct http_listener {
	struct http_server *server;
	struct MHD_Daemon *daemon;
	int fd;
	bool needs_token;
};

struct http_server {
	struct reactor *control;
	void (*handle)(void *arg, struct http_request *request);
	void *arg;
	struct unix_name name; /* of the Unix socket */
	char *token;
	struct net_addr tcp;
	struct http_listener listeners[LISTENERS_MAX];
	unsigned listener_count;
	struct list open; /* requests that are being handled */
	struct reactor_timer reaper;
	struct reactor_msg reaper_msg;
	void (*stopped)(void *arg);
	void *stopped_arg;

	pthread_mutex_t lock;
	pthread_cond_t answered;
	/* Guarded by the lock. */
	struct list conns;
	unsigned posted;    /* messages on their way to the control reactor */
	unsigned answering; /* answers that are not sent yet */
	bool is_stopping;
	bool is_reaper_running;
};

enum http_phase {
	PHASE_HEADERS,
	PHASE_BODY,
	PHASE_HANDLED, /* owned by the control reactor */
	PHASE_ANSWERED,
};

struct http_private {
	struct http_request request;
	struct http_server *server;
	struct MHD_Connection *connection;
	struct http_conn *conn;
	atomic_uint refs;
	enum http_phase phase;
	size_t body_room;
	size_t discarded_bytes;
	bool is_answer_counted;
	bool is_answered; /* used by the control reactor only */
	struct http_answer answer;
	struct list node;
	struct reactor_msg msg;
};

/* ---- requests and answers ------------------------------------------------------------------- */

static void request_put(struct http_private *private)
{
	if (atomic_fetch_sub(&private->refs, 1) != 1)
		return;
	free(private->request.method);
	free(private->request.path);
	free(private->request.if_match);
	free(private->request.content_type);
	free(private->request.body);
	free(private->answer.taken_body);
	free(private->answer.taken_location);
	free(private->answer.taken_allow);
	free(private);
}

const char *http_status_title(int status)
{
	const char *title = MHD_get_reason_phrase_for((unsigned)status);

	return title ? title : "Error";
}

char *http_problem_text(int status, const char *error)
{
	char *text = NULL;

	if (asprintf(&text,
		     "{\"type\": \"about:blank\", \"title\": \"%s\", \"status\": %d, \"detail\": "
		     "\"%s\", \"error\": \"%s\", \"errors\": [\"%s\"]}\n",
		     http_status_title(status), status, error, error, error) < 0)
		return NULL;
	return text;
}

static void answer_problem(struct http_answer *answer, int status, const char *error)
{
	*answer = (struct http_answer){
		.status = status,
		.is_problem = true,
		.taken_body = http_problem_text(status, error),
	};
	answer->body_bytes = answer->taken_body ? strlen(answer->taken_body) : 0;
}

/* A stranger (no token shown) has less time for everything. Under the lock, once the connection is
 * in the list. */
static void deadline_set(struct http_conn *conn, uint64_t after_ms)
{
	conn->late_steps = 0;
	if (conn->needs_token && !conn->is_trusted && after_ms > HTTP_STRANGER_TIMEOUT_MS)
		after_ms = HTTP_STRANGER_TIMEOUT_MS;
	conn->deadline_ns =
		after_ms == NO_DEADLINE ? NO_DEADLINE : clock_monotonic_ns() + after_ms * NS_PER_MS;
}

static void http_conn_deadline(struct http_server *server, struct http_conn *conn,
			       uint64_t after_ms)
{
	lock_take(&server->lock);
	if (conn)
		deadline_set(conn, after_ms);
	lock_release(&server->lock);
}

/* Notes whether the headers of a request have shown the token. */
static void conn_trust(struct http_server *server, struct http_conn *conn, bool is_trusted)
{
	lock_take(&server->lock);
	if (conn) {
		conn->is_trusted = is_trusted;
		conn->is_busy = is_trusted;
	}
	lock_release(&server->lock);
}

static void response_header(struct MHD_Response *response, const char *name, const char *value)
{
	if (value)
		MHD_add_response_header(response, name, value);
}

/* Takes ownership of the body of the answer. */
static enum MHD_Result mhd_respond(struct http_private *private, struct http_answer *answer)
{
	enum MHD_ResponseMemoryMode mode =
		answer->taken_body ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT;
	struct MHD_Response *response =
		MHD_create_response_from_buffer(answer->body_bytes, answer->taken_body, mode);
	enum MHD_Result res;
	char etag[32];

	if (!response)
		return MHD_NO;
	answer->taken_body = NULL;
	if (answer->body_bytes > 0)
		response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
				answer->is_problem ? "application/problem+json"
						   : "application/json");
	response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	response_header(response, MHD_HTTP_HEADER_LOCATION, answer->taken_location);
	response_header(response, MHD_HTTP_HEADER_ALLOW, answer->taken_allow);
	if (answer->status == MHD_HTTP_UNAUTHORIZED)
		response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
				"Bearer realm=\"weft\"");
	if (answer->generation > 0) {
		snprintf(etag, sizeof(etag), "\"%llu\"", (unsigned long long)answer->generation);
		response_header(response, MHD_HTTP_HEADER_ETAG, etag);
	}
	http_conn_deadline(private->server, private->conn, HTTP_BODY_TIMEOUT_MS);
	res = MHD_queue_response(private->connection, (unsigned)answer->status, response);
	MHD_destroy_response(response);
	return res;
}

static enum MHD_Result mhd_refuse(struct http_private *private, int status, const char *error)
{
	struct http_answer answer;

	answer_problem(&answer, status, error);
	return mhd_respond(private, &answer);
}

/* Gives the connection back to libmicrohttpd's thread. */
static void request_resume(struct http_private *private)
{
	struct http_server *server = private->server;

	private->is_answered = true;
	private->phase = PHASE_ANSWERED;
	list_remove(&private->node);
	lock_take(&server->lock);
	server->answering++;
	private->is_answer_counted = true;
	lock_release(&server->lock);
	MHD_resume_connection(private->connection);
}

void http_request_answer(struct http_request *request, struct http_answer *answer)
{
	struct http_private *private = request->private_part;

	if (private->is_answered) {
		/* The server has stopped in between. */
		free(answer->taken_body);
		free(answer->taken_location);
		free(answer->taken_allow);
	} else {
		private->answer = *answer;
		request_resume(private);
	}
	request_put(private);
}

static void stop_when_quiet(struct http_server *server);

static void request_arrived(struct reactor_msg *msg)
{
	struct http_private *private = container_of(msg, struct http_private, msg);
	struct http_server *server = private->server;
	bool is_stopping;

	list_push_back(&server->open, &private->node);
	lock_take(&server->lock);
	server->posted--;
	is_stopping = server->is_stopping;
	lock_release(&server->lock);
	if (!is_stopping) {
		server->handle(server->arg, &private->request);
		return;
	}
	stop_when_quiet(server);
	request_put(private);
}

/* ---- libmicrohttpd's thread ----------------------------------------------------------------- */

static const char *mhd_header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static char *mhd_header_copy(struct MHD_Connection *connection, const char *name)
{
	const char *value = mhd_header(connection, name);

	return value ? strdup(value) : NULL;
}

/* A request begins: its request line was received. */
static void *mhd_begin(void *cls, const char *uri, struct MHD_Connection *connection)
{
	struct http_listener *listener = cls;
	struct http_private *private = calloc(1, sizeof(*private));
	const union MHD_ConnectionInfo *info;
	char *query;

	if (!private)
		return NULL;
	private->server = listener->server;
	private->connection = connection;
	atomic_store(&private->refs, 1);
	list_init(&private->node);
	private->request.private_part = private;
	private->request.path = strdup(uri);
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	private->conn = info ? info->socket_context : NULL;
	if (!private->request.path) {
		free(private);
		return NULL;
	}
	query = strchr(private->request.path, '?');
	if (query) {
		*query = 0;
		private->request.query = query + 1;
	}
	return private;
}

static void mhd_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
			  enum MHD_RequestTerminationCode why)
{
	struct http_private *private = *con_cls;
	struct http_server *server;

	if (!private)
		return;
	server = private->server;
	lock_take(&server->lock);
	if (private->is_answer_counted) {
		server->answering--;
		pthread_cond_signal(&server->answered);
	}
	if (private->conn) {
		private->conn->is_busy = false;
		deadline_set(private->conn, HTTP_HEADER_TIMEOUT_MS);
	}
	lock_release(&server->lock);
	request_put(private);
	*con_cls = NULL;
}

/* The headers are complete: refuses what can be refused without the body. */
static enum MHD_Result mhd_on_headers(struct http_listener *listener, struct http_private *private,
				      const char *method)
{
	struct MHD_Connection *connection = private->connection;
	const char *length = mhd_header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);

	bool is_trusted = !listener->needs_token ||
			  http_token_matches(listener->server->token,
					     mhd_header(connection, MHD_HTTP_HEADER_AUTHORIZATION));

	private->phase = PHASE_BODY;
	conn_trust(listener->server, private->conn, is_trusted);
	if (!is_trusted)
		return mhd_refuse(private, MHD_HTTP_UNAUTHORIZED,
				  "not authenticated: send Authorization: Bearer TOKEN, with the "
				  "token of --api-token-file");
	if (length && strtoull(length, NULL, 10) > HTTP_BODY_BYTES_MAX)
		return mhd_refuse(private, MHD_HTTP_CONTENT_TOO_LARGE,
				  "the body is larger than 16 MiB");
	private->request.method = strdup(method);
	private->request.if_match = mhd_header_copy(connection, MHD_HTTP_HEADER_IF_MATCH);
	private->request.content_type = mhd_header_copy(connection, MHD_HTTP_HEADER_CONTENT_TYPE);
	http_conn_deadline(listener->server, private->conn, HTTP_BODY_TIMEOUT_MS);
	return private->request.method ? MHD_YES : MHD_NO;
}

static enum MHD_Result mhd_on_body(struct http_private *private, const char *data, size_t len_bytes)
{
	struct http_request *request = &private->request;
	size_t room = private->body_room;

	if (private->discarded_bytes > 0 || request->body_bytes + len_bytes > HTTP_BODY_BYTES_MAX) {
		/* An answer in the middle of a body is not possible: read on, up to a limit. */
		private->discarded_bytes += len_bytes;
		return private->discarded_bytes > (size_t)DISCARD_FACTOR * HTTP_BODY_BYTES_MAX
			       ? MHD_NO
			       : MHD_YES;
	}
	while (room < request->body_bytes + len_bytes + 1)
		room = room > 0 ? 2 * room : 4096;
	if (room > private->body_room) {
		char *body = realloc(request->body, room);

		if (!body)
			return MHD_NO;
		request->body = body;
		private->body_room = room;
	}
	memcpy(request->body + request->body_bytes, data, len_bytes);
	request->body_bytes += len_bytes;
	request->body[request->body_bytes] = 0;
	return MHD_YES;
}

static enum MHD_Result mhd_on_complete(struct http_private *private)
{
	struct http_server *server = private->server;
	bool is_stopping;

	if (private->discarded_bytes > 0)
		return mhd_refuse(private, MHD_HTTP_CONTENT_TOO_LARGE,
				  "the body is larger than 16 MiB");
	http_conn_deadline(server, private->conn, NO_DEADLINE);
	lock_take(&server->lock);
	is_stopping = server->is_stopping;
	if (!is_stopping) {
		private->phase = PHASE_HANDLED;
		atomic_fetch_add(&private->refs, 1);
		server->posted++;
		MHD_suspend_connection(private->connection);
		reactor_post(server->control, &private->msg, request_arrived);
	}
	lock_release(&server->lock);
	return is_stopping
		       ? mhd_refuse(private, MHD_HTTP_SERVICE_UNAVAILABLE, "the target is stopping")
		       : MHD_YES;
}

static enum MHD_Result mhd_access(void *cls, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *data_bytes, void **con_cls)
{
	struct http_private *private = *con_cls;
	enum MHD_Result res;

	if (!private)
		return MHD_NO;
	if (private->phase == PHASE_HEADERS)
		return mhd_on_headers(cls, private, method);
	if (private->phase == PHASE_ANSWERED)
		return mhd_respond(private, &private->answer);
	if (*data_bytes == 0)
		return mhd_on_complete(private);
	res = mhd_on_body(private, data, *data_bytes);
	*data_bytes = 0;
	return res;
}

/* Leaves the path encoded: names may have slashes, so the path is split before it is decoded. */
static size_t mhd_unescape_not(void *cls, struct MHD_Connection *connection, char *text)
{
	return strlen(text);
}

__attribute__((format(printf, 2, 0))) static void mhd_log(void *cls, const char *format,
							  va_list args)
{
	char text[256];

	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = 0;
	log_limited(LOG_LEVEL_DEBUG, "control", "HTTP: %s", text);
}

/* ---- deadlines ------------------------------------------------------------------------------ */

/* Whether the HTTP thread is behind: it has not yet read what the client sent. On a machine without
 * free CPUs that thread may wait for seconds. A stranger gets no more time for that. */
static bool conn_is_owed(struct http_conn *conn)
{
	int unread_bytes = 0;

	if ((conn->needs_token && !conn->is_trusted) || conn->late_steps == LATE_STEPS_MAX ||
	    ioctl(conn->fd, FIONREAD, &unread_bytes) < 0 || unread_bytes == 0)
		return false;
	conn->late_steps++;
	return true;
}

static void reaper_fire(struct reactor_timer *timer)
{
	struct http_server *server = container_of(timer, struct http_server, reaper);
	uint64_t now_ns = clock_monotonic_ns();

	lock_take(&server->lock);
	list_for_each(node, &server->conns) {
		struct http_conn *conn = list_entry(node, struct http_conn, node);

		/* The HTTP thread sees the end of the stream and closes the connection. */
		if (conn->deadline_ns <= now_ns && !conn_is_owed(conn)) {
			log_limited(LOG_LEVEL_DEBUG, "control",
				    "the REST API closes an idle connection");
			shutdown(conn->fd, SHUT_RDWR);
			conn->deadline_ns = NO_DEADLINE;
		}
	}
	server->is_reaper_running = !list_empty(&server->conns) && !server->is_stopping;
	if (server->is_reaper_running)
		reactor_timer_arm(timer, now_ns + REAPER_STEP_NS);
	lock_release(&server->lock);
}

static void reaper_start(struct reactor_msg *msg)
{
	struct http_server *server = container_of(msg, struct http_server, reaper_msg);
	bool is_stopping;

	lock_take(&server->lock);
	server->posted--;
	is_stopping = server->is_stopping;
	lock_release(&server->lock);
	if (is_stopping)
		stop_when_quiet(server);
	else
		reactor_timer_arm(&server->reaper, clock_monotonic_ns() + REAPER_STEP_NS);
}

static void conn_peer(struct MHD_Connection *connection, struct net_addr *ret_peer)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};

	net_addr_from(info && info->client_addr ? info->client_addr : &nobody, ret_peer);
}

/* Shuts down a connection when there are too many. Its thread sees the end of the stream and closes
 * it. */
static void room_make(struct http_server *server, struct http_conn *newest)
{
	struct http_conn *victim = http_conn_victim(&server->conns, newest);
	char text[NET_ADDR_TEXT_BYTES] = "the Unix socket";

	if (!victim)
		return;
	if (victim->needs_token)
		net_addr_format_host(&victim->peer, text);
	log_limited(LOG_LEVEL_WARN, "control",
		    "the REST API has too many connections: closing %s connection from %s",
		    victim == newest ? "the newest" : "the oldest", text);
	shutdown(victim->fd, SHUT_RDWR);
	victim->deadline_ns = NO_DEADLINE;
	/* The connection is being closed, and does not count any more. */
	victim->listener = NULL;
}

static void mhd_conn_started(struct http_listener *listener, struct MHD_Connection *connection,
			     void **socket_context)
{
	struct http_server *server = listener->server;
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct http_conn *conn = calloc(1, sizeof(*conn));

	*socket_context = conn;
	if (!conn)
		return;
	conn->fd = info->connect_fd;
	conn->listener = listener;
	conn->needs_token = listener->needs_token;
	conn_peer(connection, &conn->peer);
	deadline_set(conn, HTTP_HEADER_TIMEOUT_MS);
	lock_take(&server->lock);
	list_push_back(&server->conns, &conn->node);
	room_make(server, conn);
	if (!server->is_reaper_running && !server->is_stopping) {
		server->is_reaper_running = true;
		server->posted++;
		reactor_post(server->control, &server->reaper_msg, reaper_start);
	}
	lock_release(&server->lock);
}

static void mhd_conn_notify(void *cls, struct MHD_Connection *connection, void **socket_context,
			    enum MHD_ConnectionNotificationCode what)
{
	struct http_listener *listener = cls;
	struct http_conn *conn;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		mhd_conn_started(listener, connection, socket_context);
		return;
	}
	conn = *socket_context;
	if (!conn)
		return;
	lock_take(&listener->server->lock);
	list_remove(&conn->node);
	lock_release(&listener->server->lock);
	free(conn);
	*socket_context = NULL;
}

/* ---- start and end -------------------------------------------------------------------------- */

static int listener_start(struct http_server *server, int taken_fd, bool needs_token)
{
	struct http_listener *listener = &server->listeners[server->listener_count];

	listener->server = server;
	listener->fd = taken_fd;
	listener->needs_token = needs_token;
	listener->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
		NULL, NULL, mhd_access, listener, MHD_OPTION_EXTERNAL_LOGGER, mhd_log, NULL,
		MHD_OPTION_LISTEN_SOCKET, taken_fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)CONNECTIONS_ROOM, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_MEMORY, MHD_OPTION_URI_LOG_CALLBACK, mhd_begin, listener,
		MHD_OPTION_UNESCAPE_CALLBACK, mhd_unescape_not, NULL, MHD_OPTION_NOTIFY_COMPLETED,
		mhd_completed, listener, MHD_OPTION_NOTIFY_CONNECTION, mhd_conn_notify, listener,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	if (!listener->daemon) {
		close(taken_fd);
		return -EIO;
	}
	server->listener_count++;
	return 0;
}

static int listeners_start(struct http_server *server, const struct http_options *options,
			   struct http_error *error)
{
	int tcp_fd = -1, unix_fd = -1;
	int res = 0;

	if (options->has_tcp) {
		res = http_token_load(options->token_path, &server->token, error);
		if (res == 0)
			res = http_listen_tcp(&options->tcp, &tcp_fd, &server->tcp, error);
	}
	if (res == 0 && options->socket_path) {
		res = http_listen_unix(options->socket_path, &unix_fd, &server->name, error);
	}
	if (res < 0) {
		if (tcp_fd >= 0)
			close(tcp_fd);
		return res;
	}
	if ((tcp_fd >= 0 && listener_start(server, tcp_fd, true) < 0) ||
	    (unix_fd >= 0 && listener_start(server, unix_fd, false) < 0)) {
		snprintf(error->text, sizeof(error->text),
			 "cannot start the HTTP server: no memory, threads or descriptors");
		return -EIO;
	}
	return 0;
}

/* Called when no request is open. Ends libmicrohttpd's threads. */
static void server_free(struct http_server *server)
{
	unix_name_remove(&server->name); /* in case the server did not start */
	for (unsigned i = 0; i < server->listener_count; i++) {
		MHD_stop_daemon(server->listeners[i].daemon);
		close(server->listeners[i].fd);
	}
	reactor_timer_cancel(&server->reaper);
	pthread_cond_destroy(&server->answered);
	pthread_mutex_destroy(&server->lock);
	free(server->token);
	free(server);
}

static void listeners_quiesce(struct http_server *server)
{
	lock_take(&server->lock);
	server->is_stopping = true;
	lock_release(&server->lock);
	unix_name_remove(&server->name);
	/* The descriptor stays open until the thread has ended. */
	for (unsigned i = 0; i < server->listener_count; i++)
		MHD_quiesce_daemon(server->listeners[i].daemon);
}

int http_server_start(const struct http_options *options, struct http_server **ret_server,
		      struct http_error *ret_error)
{
	struct http_server *server = calloc(1, sizeof(*server));
	int res;

	if (!server) {
		snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
		return -ENOMEM;
	}
	server->control = options->control;
	server->handle = options->handle;
	server->arg = options->arg;
	list_init(&server->open);
	list_init(&server->conns);
	lock_init(&server->lock);
	pthread_cond_init(&server->answered, NULL);
	reactor_timer_init(server->control, &server->reaper, reaper_fire);
	res = listeners_start(server, options, ret_error);
	if (res < 0) {
		listeners_quiesce(server);
		server_free(server);
		return res;
	}
	*ret_server = server;
	return 0;
}

const struct net_addr *http_server_tcp_addr(const struct http_server *server)
{
	return &server->tcp;
}

/* Waits a moment for answers that are being sent. */
static void answers_wait(struct http_server *server)
{
	struct timespec deadline;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += STOP_WAIT_S;
	lock_take(&server->lock);
	while (server->answering > 0 &&
	       pthread_cond_timedwait(&server->answered, &server->lock, &deadline) == 0)
		;
	lock_release(&server->lock);
}

static void stop_when_quiet(struct http_server *server)
{
	void (*stopped)(void *arg) = server->stopped;
	void *arg = server->stopped_arg;
	unsigned posted;

	lock_take(&server->lock);
	posted = server->posted;
	lock_release(&server->lock);
	if (posted > 0)
		return;
	list_for_each_safe(node, &server->open) {
		struct http_private *private = list_entry(node, struct http_private, node);

		answer_problem(&private->answer, MHD_HTTP_SERVICE_UNAVAILABLE,
			       "the target is stopping");
		request_resume(private);
	}
	answers_wait(server);
	server_free(server);
	stopped(arg);
}

void http_server_stop(struct http_server *server, void (*stopped)(void *arg), void *arg)
{
	server->stopped = stopped;
	server->stopped_arg = arg;
	listeners_quiesce(server);
	stop_when_quiet(server);
}
