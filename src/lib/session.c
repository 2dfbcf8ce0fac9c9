/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synchronous use of the asynchronous host library. Two threads: the caller's, and the session's,
 * which runs the reactor. Work crosses to the session's thread by reactor_post, and answers come
 * back by a semaphore. The caller waits for each post before it makes the next, so `struct session`
 * needs no lock.
 */
#include "lib/session.h"

#include "base/text.h"
#include "reactor/uring_remedy.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct session {
	struct host_config config;
	struct reactor *reactor;
	struct host_ctrl *ctrl;
	pthread_t thread;
	sem_t answered;
	struct reactor_msg msg;
	struct host_cmd *cmd;
	int result;
	struct host_error error;
	struct ctrl_identity identity;
	uint16_t cntlid;
	unsigned io_queues;
	bool is_connected;
};

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	struct session *session = arg;

	session->result = res;
	if (res == 0) {
		session->is_connected = true;
		session->identity = *host_ctrl_identity(ctrl);
		session->cntlid = host_ctrl_cntlid(ctrl);
		session->io_queues = host_ctrl_io_queues(ctrl);
	} else {
		session->error = *error;
		session->ctrl = NULL;
	}
	sem_post(&session->answered);
}

static void start_msg(struct reactor_msg *msg)
{
	struct session *session = container_of(msg, struct session, msg);
	static const struct host_callbacks callbacks = {.connected = on_connected};
	int res = host_connect(session->reactor, &session->config, &callbacks, session,
			       &session->ctrl);

	if (res != 0) {
		session->result = res;
		text_copy(session->error.text, sizeof(session->error.text), "out of memory");
		sem_post(&session->answered);
	}
}

static void *session_main(void *arg)
{
	struct session *session = arg;

	reactor_run(session->reactor);
	return NULL;
}

static void session_wait(struct session *session)
{
	while (sem_wait(&session->answered) != 0)
		CHECK(errno == EINTR);
}

static void stop_msg(struct reactor_msg *msg)
{
	reactor_stop(container_of(msg, struct session, msg)->reactor);
}

/* Destroy the reactor only after its thread has ended: our last post may still be running then. */
static void session_join(struct session *session)
{
	reactor_post(session->reactor, &session->msg, stop_msg);
	pthread_join(session->thread, NULL);
	reactor_destroy(session->reactor);
	sem_destroy(&session->answered);
	free(session);
}

/* Blocks all signals on the new thread: a signal handler of the program must not run there. */
static int session_thread_start(struct session *session)
{
	sigset_t all, before;
	int res;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	res = -pthread_create(&session->thread, NULL, session_main, session);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return res;
}

/* Starts the reactor and its thread. 0, or -errno with the reason in *ret_error. */
static int session_start(struct session *session, struct host_error *ret_error)
{
	struct reactor_config config = {.index = 0, .cpu = -1};
	int res = reactor_create(&config, &session->reactor);

	if (res != 0) {
		snprintf(ret_error->text, sizeof(ret_error->text), "cannot start io_uring: %s; %s",
			 strerror(-res), uring_remedy(res));
		return res;
	}
	sem_init(&session->answered, 0, 0);
	res = session_thread_start(session);
	if (res != 0) {
		text_copy(ret_error->text, sizeof(ret_error->text), "cannot start a thread");
		sem_destroy(&session->answered);
		reactor_destroy(session->reactor);
	}
	return res;
}

int session_open(const struct host_config *config, struct session **ret_session,
		 struct host_error *ret_error)
{
	struct session *session = calloc(1, sizeof(*session));
	int res;

	if (session == NULL)
		return -ENOMEM;
	session->config = *config;
	res = session_start(session, ret_error);
	if (res != 0) {
		free(session);
		return res;
	}
	reactor_post(session->reactor, &session->msg, start_msg);
	session_wait(session);
	res = session->result;
	if (res != 0) {
		*ret_error = session->error;
		session_join(session);
		return res;
	}
	*ret_session = session;
	return 0;
}

static void on_gone(void *arg)
{
	struct session *session = arg;

	sem_post(&session->answered);
}

static void close_msg(struct reactor_msg *msg)
{
	struct session *session = container_of(msg, struct session, msg);

	host_disconnect(session->ctrl, on_gone, session);
}

void session_close(struct session *session)
{
	reactor_post(session->reactor, &session->msg, close_msg);
	session_wait(session);
	session_join(session);
}

const struct ctrl_identity *session_identity(const struct session *session)
{
	return &session->identity;
}

uint16_t session_cntlid(const struct session *session)
{
	return session->cntlid;
}

unsigned session_io_queues(const struct session *session)
{
	return session->io_queues;
}

/* One thread per session and one command at a time, so this variable identifies the session that
 * waits for the command. */
static _Thread_local struct session *session_of_thread;

static void on_cmd_done(struct host_cmd *cmd)
{
	sem_post(&session_of_thread->answered);
}

static void submit_msg(struct reactor_msg *msg)
{
	struct session *session = container_of(msg, struct session, msg);

	session_of_thread = session;
	session->cmd->done = on_cmd_done;
	host_submit_admin(session->ctrl, session->cmd);
}

nvme_status session_admin(struct session *session, struct host_cmd *cmd)
{
	session->cmd = cmd;
	reactor_post(session->reactor, &session->msg, submit_msg);
	session_wait(session);
	return cmd->status;
}

int session_list_ns(struct session *session, uint32_t *nsids, unsigned max)
{
	uint8_t page[NVME_PAGE_BYTES];
	uint32_t list[1024];
	uint32_t last = 0;
	unsigned count = 0;

	for (;;) {
		struct host_cmd cmd = {0};
		uint32_t found;

		host_cmd_identify(&cmd, last, IDENTIFY_NS_LIST, page);
		if (!nvme_status_is_ok(session_admin(session, &cmd)))
			return -EIO;
		found = identify_ns_list_decode(page, list);
		/* NSIDs increase (NVMe Base 2.1, section 5.1.13.2.2). Without this check a list
		 * that does not increase could be read for ever. */
		for (uint32_t i = 0; i < found && count < max; i++) {
			if (list[i] <= (i == 0 ? last : list[i - 1]))
				return -EPROTO;
			nsids[count++] = list[i];
		}
		if (found < ARRAY_LEN(list) || count == max)
			return (int)count;
		last = list[found - 1];
	}
}

nvme_status session_identify_ns(struct session *session, uint32_t nsid,
				struct ns_identity *ret_identity)
{
	uint8_t page[NVME_PAGE_BYTES];
	struct host_cmd cmd = {0};
	nvme_status status;

	host_cmd_identify(&cmd, nsid, IDENTIFY_NS, page);
	status = session_admin(session, &cmd);
	if (nvme_status_is_ok(status) && identify_ns_decode(page, ret_identity) != 0)
		status = NVME_SC_INTERNAL;
	if (!nvme_status_is_ok(status))
		return status;
	/* The UUID is in another page, which a controller need not support. */
	host_cmd_identify(&cmd, nsid, IDENTIFY_NS_DESCRIPTORS, page);
	if (nvme_status_is_ok(session_admin(session, &cmd)))
		(void)identify_ns_descriptors_decode(page, ret_identity);
	return status;
}
