/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error texts of the host side: each names the thing that failed, the answer of the controller or
 * kernel and, where one is known, the remedy. Runs on the controller's reactor, never for a
 * successful command. Connect reject codes: NVMe Base 2.1, section 6.3.
 */
#include "base/text.h"
#include "host/host_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void host_error_format(struct host_error *error, nvme_status status, const char *format, ...)
{
	va_list args;

	error->status = status;
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
}

/* glibc's strerror begins with a capital; lower it for the middle of a sentence. */
static const char *errno_text(int cause, char *text, size_t text_bytes)
{
	const char *name = strerror(cause < 0 ? -cause : cause);

	text_copy(text, text_bytes, name);
	text[0] = (char)tolower((unsigned char)text[0]);
	return text;
}

static const char *errno_remedy(int cause)
{
	switch (-cause) {
	case ECONNREFUSED:
		return "; is `weft serve` running?";
	case ENETUNREACH:
	case EHOSTUNREACH:
		return "; check the address and the route to it";
	case ETIMEDOUT:
		return "; check the address and any firewall between";
	default:
		return "";
	}
}

void host_error_from_close(struct host_error *error, const struct host_queue *queue, int cause,
			   const char *why)
{
	const struct host_ctrl *ctrl = queue->ctrl;
	char addr[HOST_ADDR_TEXT_BYTES];
	char reason[96];

	host_addr_format(&ctrl->config.addr, addr);
	if (cause == 0)
		text_copy(reason, sizeof(reason), "the controller closed the connection");
	else
		errno_text(cause, reason, sizeof(reason));
	if (!ctrl->was_connected && !queue->was_ready && errno_remedy(cause)[0] != '\0')
		host_error_format(error, NVME_SC_SUCCESS, "cannot connect to %s: %s%s", addr,
				  reason, errno_remedy(cause));
	else if (!ctrl->was_connected)
		host_error_format(error, NVME_SC_SUCCESS,
				  "connection of queue %u to %s ended during %s: %s (%s)",
				  queue->qid, addr, host_setup_step_name(ctrl), reason,
				  why != NULL ? why : "no reason given");
	else
		host_error_format(error, NVME_SC_HOST_PATHING_ERROR,
				  "connection of queue %u to %s was lost: %s (%s)", queue->qid,
				  addr, reason, why != NULL ? why : "no reason given");
}

static const char *connect_field(const struct connect_reject *reject)
{
	if (reject->is_in_data) {
		switch (reject->parameter_offset) {
		case CONNECT_DATA_HOSTID:
			return "host identifier";
		case CONNECT_DATA_CNTLID:
			return "controller ID";
		case CONNECT_DATA_SUBNQN:
			return "subsystem NQN; `weft discover` lists those that exist";
		case CONNECT_DATA_HOSTNQN:
			return "host NQN";
		default:
			return "unknown field";
		}
	}
	switch (reject->parameter_offset) {
	case CONNECT_SQE_RECFMT:
		return "record format";
	case CONNECT_SQE_QID:
		return "queue ID";
	case CONNECT_SQE_SQSIZE:
		return "queue size";
	case CONNECT_SQE_CATTR:
		return "connect attributes";
	case CONNECT_SQE_KATO:
		return "keep alive time-out";
	default:
		return "unknown field";
	}
}

void host_error_from_connect(struct host_error *error, const struct host_queue *queue,
			     nvme_status status, uint32_t dw0)
{
	const char *nqn = queue->ctrl->config.subsystem_nqn;
	struct connect_reject reject = connect_reject_from(status, dw0);

	if (nvme_status_same(status, NVME_SC_CONNECT_INVALID_PARAM))
		host_error_format(
			error, status,
			"Connect of queue %u to %s was refused: %s, IPO %u in the %s (%s)",
			queue->qid, nqn, nvme_status_name(status), reject.parameter_offset,
			reject.is_in_data ? "data" : "command", connect_field(&reject));
	else if (nvme_status_same(status, NVME_SC_CONNECT_INVALID_HOST))
		host_error_format(error, status,
				  "Connect of queue %u to %s was refused: %s; host %.100s is not "
				  "on the subsystem's list of allowed hosts",
				  queue->qid, nqn, nvme_status_name(status),
				  queue->ctrl->config.host_nqn);
	else
		host_error_format(error, status,
				  "Connect of queue %u to %s was refused: %s (status 0x%03x)",
				  queue->qid, nqn, nvme_status_name(status), status.value & 0x7ff);
}
