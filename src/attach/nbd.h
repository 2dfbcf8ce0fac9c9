/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NBD server of `weft attach --nbd`: clients on a Unix socket, which share one namespace.
 * Everything runs on the main thread, so there is no lock. The thread sleeps in poll(2), and
 * libweft's callbacks run on it, in weft_poll.
 *
 * Memory is bounded by limits on clients, and on requests and bytes in flight per client. A client
 * at its limits is not read from. A client that does not read its replies reaches these limits too.
 */
#ifndef WEFT_ATTACH_NBD_H
#define WEFT_ATTACH_NBD_H

#include "attach/nbd_proto.h"
#include "attach/ns.h"
#include "base/list.h"
#include "weft/weft.h"

#define NBD_CLIENTS_MAX  16
#define NBD_CLIENT_SLOTS 128
#define NBD_CLIENT_BYTES NBD_LENGTH_MAX /* in flight; a longer request goes alone */
#define NBD_RX_BYTES     65536          /* an option and its header fit */
#define NBD_SLOT_KEPT    (128u << 10)   /* largest buffer that a slot keeps */
#define NBD_SEND_PIECES  64
#define NBD_STATUS_BYTES (64u << 10)            /* the controller's list, and the reply */
#define NBD_STATUS_LIST  (NBD_STATUS_BYTES / 2) /* the list; two extents per entry fit after it */
#define NBD_HANDSHAKE_NS (10ull * 1000000000)
#define NBD_STOP_NS      (10ull * 1000000000)
#define NBD_ROUNDS_MAX   16 /* receives from one client before the next client's turn */

struct nbd_client;

struct nbd_options {
	const char *command; /* the sub-command, for messages */
	const char *socket_path;
	const char *export_name;
	const char *description;
	bool is_read_only;
	struct weft *weft; /* created with WEFT_CALLBACKS_POLL */
	struct attach_ns *attached;
};

/* One request, from its header to the last byte of its reply. */
struct nbd_slot {
	struct weft_request request;
	struct iovec iov;
	struct nbd_client *client;
	struct list node; /* in the list of free slots, or of replies */
	struct nbd_request asked;
	uint8_t *buf;
	size_t buf_bytes;
	size_t held_bytes;   /* bytes counted against the client's limit */
	size_t reply_offset; /* of a read: offset in buf of the first byte asked for */
	size_t reply_bytes;
	size_t sent_bytes; /* of header and reply together */
	bool tells_loss;   /* reply of a failed flush, which reports lost writes */
	uint8_t header[NBD_HEADER_MAX_BYTES];
	size_t header_bytes;
};

struct nbd_client {
	const struct nbd_options *options;
	struct weft_ns *ns; /* its own handle: each client hears of lost writes */
	struct list node;   /* in the server's list */
	int fd;
	short poll_events; /* events to wait for in poll(2) */
	bool is_ending;    /* no further request is taken */
	bool is_broken;    /* the socket is unusable: replies are dropped */
	uint64_t deadline_ns;
	struct nbd_export export;
	struct nbd_handshake handshake;
	size_t answer_sent_bytes;
	size_t rx_begin, rx_end;
	uint64_t skip_bytes;      /* data left to skip of a refused write */
	struct nbd_slot *filling; /* a write whose data is being received; or NULL */
	size_t filled_bytes;
	size_t held_bytes;
	unsigned in_flight; /* requests in flight in libweft */
	struct list free_slots;
	struct list replies;
	uint8_t rx[NBD_RX_BYTES];
	struct nbd_slot slots[NBD_CLIENT_SLOTS];
};

/* NULL: out of memory, fd stays the caller's. Otherwise the client owns fd. */
struct nbd_client *nbd_client_create(const struct nbd_options *options, int fd,
				     const struct nbd_export *export, uint64_t now_ns);
/* Sends, parses and receives until it must wait, then sets poll_events. */
void nbd_client_work(struct nbd_client *client);
/* Whether all work for the client is done; the server then destroys the client. */
bool nbd_client_is_over(const struct nbd_client *client);
/* Marks the socket as unusable and drops the replies. Requests in flight in libweft still end. */
void nbd_client_break(struct nbd_client *client);
bool nbd_client_is_shaking_hands(const struct nbd_client *client);
void nbd_client_destroy(struct nbd_client *client);

/* Executes a request whose data, if any, is complete. */
void nbd_slot_submit(struct nbd_slot *slot);
/* Encodes the reply and queues it. */
void nbd_slot_answer(struct nbd_slot *slot, enum nbd_error error);
/* Bytes of buffer that a checked request needs, in whole blocks; 0 without data. */
size_t nbd_asked_bytes(const struct nbd_request *asked, const struct nbd_export *export);
/* Allocates the buffer for slot->asked. 0 or -ENOMEM. */
int nbd_slot_hold(struct nbd_slot *slot);
void nbd_slot_release(struct nbd_slot *slot);
/* Releases the slot of a request whose reply did not reach the client. */
void nbd_slot_drop(struct nbd_slot *slot);

/* Serves until SIGTERM or SIGINT, which the caller must block before. 0, or -1 after a message. */
int nbd_serve(const struct nbd_options *options);

#endif
