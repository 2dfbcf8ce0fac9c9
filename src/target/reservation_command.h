/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands and administrators do to the reservation of a namespace (ns/reservation.h), and
 * what hosts are told of it. Private to target/, but for reservation_clear_by_admin.
 */
#ifndef WEFT_TARGET_RESERVATION_COMMAND_H
#define WEFT_TARGET_RESERVATION_COMMAND_H

#include "ns/reservation.h"

struct ctrl;
struct ns;
struct slot;
struct target;

/* ---- the checks: reservation_check.c --------------------------------------------------------- */

/*
 * On the queue's reactor: may this command go on? `view` is what this reactor knows of `ns`. For
 * the sources of a Copy the opcode is NVME_IO_READ.
 */
nvme_status reservation_check(const struct slot *slot, const struct ns *ns, uint8_t opcode,
			      const struct ns_view *view);
/* On the controller's reactor: an admin command about one namespace (Format NVM, …). */
nvme_status reservation_check_admin(const struct ctrl *ctrl, const struct ns *ns, uint8_t opcode);

/* ---- commands -------------------------------------------------------------------------------- */

nvme_status reservation_register_prepare(struct slot *slot); /* cmd_reservation.c */
nvme_status reservation_acquire_prepare(struct slot *slot);
nvme_status reservation_release_prepare(struct slot *slot);
nvme_status reservation_report_prepare(struct slot *slot); /* cmd_reservation_report.c */

/* cmd_reservation.c: before the first command. */
void reservation_init(struct target *target);

/* cmd_reservation.c, control reactor: `next` becomes the truth: kept, then published. On -errno
 * nothing has changed and done is not called. */
int reservation_replace(struct target *target, struct ns_live *live, struct reservation *next,
			void (*done)(void *arg), void *arg);
/* Feature 83h: kept on return. 0 or -errno: nothing has changed. */
int reservation_change_persist(struct target *target, struct ns_live *live, bool persists);

/* ---- Preempt and Abort: reservation_abort.c -------------------------------------------------- */

struct abort_all;
/* NULL when out of memory. */
struct abort_all *reservation_abort_create(struct target *target);
void reservation_abort_free(struct abort_all *all); /* one that was not started; NULL: nothing */
/*
 * Ends the commands on `live` of the hosts that the outcome tells of their preempted registration;
 * `done` on the control reactor when they have ended, or with -ETIMEDOUT when some hang in their
 * medium. Outcome and live are the caller's until then.
 */
void reservation_abort_start(struct abort_all *taken_all, struct ns_live *live,
			     const struct reservation_outcome *outcome,
			     void (*done)(void *arg, int res), void *arg);

/* ---- notifications: reservation_notice.c ----------------------------------------------------- */

/* Control reactor: tells every controller of the hosts named; sorts the notices by host. */
void reservation_notify(struct target *target, struct ns_live *live,
			struct reservation_outcome *outcome);
/* In sorted notices; NULL: the host is not told. */
const struct reservation_notice *reservation_notice_find(const struct reservation_notice *notices,
							 unsigned count,
							 const struct uuid *host_id);

/* On the controller's reactor. Feature 82h; 0 or -ENOMEM. */
uint32_t ctrl_notice_mask(const struct ctrl *ctrl, uint32_t nsid);
int ctrl_notice_mask_set(struct ctrl *ctrl, uint32_t nsid, uint32_t mask);
int ctrl_notice_mask_set_all(struct ctrl *ctrl, uint32_t mask);
/* The page was read without RAE. True: there is another one. */
bool ctrl_notice_pop(struct ctrl *ctrl);
/* CC.EN 1 to 0, and the end. */
void ctrl_notices_reset(struct ctrl *ctrl);

/* ---- for people: control reactor ------------------------------------------------------------- */

/*
 * Unregisters every host and releases the reservation; kept and published before `done` is called
 * on the control reactor, with 0 or -errno; hosts are told as by Clear. May be called from inside.
 */
void reservation_clear_by_admin(struct target *target, struct ns_live *live,
				void (*done)(void *arg, int res), void *arg);

#endif
