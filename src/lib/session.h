/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller for tools that send one command after the other. The reactor runs on a thread of its
 * own, and each call here waits for the answer. For discovery and the tools, not for load.
 */
#ifndef WEFT_LIB_SESSION_H
#define WEFT_LIB_SESSION_H

#include "host/host.h"

struct session;

/* 0, or -errno with the reason in *ret_error. */
int session_open(const struct host_config *config, struct session **ret_session,
		 struct host_error *ret_error);
void session_close(struct session *session);
const struct ctrl_identity *session_identity(const struct session *session);
uint16_t session_cntlid(const struct session *session);
unsigned session_io_queues(const struct session *session);
/* Runs one admin command. Its data is in place on return. The session sets cmd->done. */
nvme_status session_admin(struct session *session, struct host_cmd *cmd);
/* Lists the NSIDs of active namespaces, up to `max`. Returns their number, -EPROTO when the list is
 * not in ascending order, or another -errno. */
int session_list_ns(struct session *session, uint32_t *nsids, unsigned max);
nvme_status session_identify_ns(struct session *session, uint32_t nsid,
				struct ns_identity *ret_identity);

#endif
