/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands and administrators do to the reservation of a namespace (ns/reservation.h), and the
 * notices that hosts get. Private to target/, except reservation_clear_by_admin.
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
 * Checks whether the reservation allows the command. On the queue's reactor. `view` is this
 * reactor's view of `ns`. For the sources of a Copy, pass the opcode NVME_IO_READ.
 */
nvme_status reservation_check(const struct slot *slot, const struct ns *ns, uint8_t opcode,
			      const struct ns_view *view);
/* Checks whether the reservation allows an admin command about one namespace (Format NVM, ...). On
 * the controller's reactor. */
nvme_status reservation_check_admin(const struct ctrl *ctrl, const struct ns *ns, uint8_t opcode);

/* ---- commands -------------------------------------------------------------------------------- */

nvme_status reservation_register_prepare(struct slot *slot); /* cmd_reservation.c */
nvme_status reservation_acquire_prepare(struct slot *slot);
nvme_status reservation_release_prepare(struct slot *slot);
nvme_status reservation_report_prepare(struct slot *slot); /* cmd_reservation_report.c */

/* cmd_reservation.c: call before the first command. */
void reservation_init(struct target *target);

/* cmd_reservation.c, control reactor: keeps `next`, puts it in force and publishes it. On -errno
 * nothing has changed, and `done` is not called. */
int reservation_replace(struct target *target, struct ns_live *live, struct reservation *next,
			void (*done)(void *arg), void *arg);

/* ---- Set Features 83h: feature_reservation.c, control reactor -------------------------------- */

bool persistence_wanted(const struct slot *slot);
/* The next namespace that a command for all namespaces changes, from slot->steps.index on, or NULL.
 * *ret_index: its index. */
struct ns_live *persistence_next(const struct slot *slot, uint32_t *ret_index);
/* Adds the command, which has succeeded, to the event log. */
void persistence_note(const struct slot *slot);

/* ---- Preempt and Abort: reservation_abort.c -------------------------------------------------- */

struct abort_all;
/* NULL when out of memory. */
struct abort_all *reservation_abort_create(struct target *target);
void reservation_abort_free(struct abort_all *all); /* not started; NULL does nothing */
/*
 * Ends the commands on `live` of the hosts that the outcome names as preempted. Calls `done` on the
 * control reactor when the commands have ended, or with -ETIMEDOUT when a medium does not complete
 * some of them. The caller keeps outcome and live until then.
 */
void reservation_abort_start(struct abort_all *taken_all, struct ns_live *live,
			     const struct reservation_outcome *outcome,
			     void (*done)(void *arg, int res), void *arg);

/* ---- notifications: reservation_notice.c ----------------------------------------------------- */

/* Control reactor: notifies every controller of the hosts named. Sorts the notices by host. */
void reservation_notify(struct target *target, struct ns_live *live,
			struct reservation_outcome *outcome);
/* The notice of this host among sorted notices, or NULL when the host gets none. */
const struct reservation_notice *reservation_notice_find(const struct reservation_notice *notices,
							 unsigned count,
							 const struct uuid *host_id);

/* Feature 82h, on the controller's reactor. 0 or -ENOMEM. */
uint32_t ctrl_notice_mask(const struct ctrl *ctrl, const struct ns *ns);
int ctrl_notice_mask_set(struct ctrl *ctrl, const struct ns *ns, uint32_t mask);
int ctrl_notice_mask_set_all(struct ctrl *ctrl, uint32_t mask);
/* Removes the page that was read without RAE. Returns true when another page is left. */
bool ctrl_notice_pop(struct ctrl *ctrl);
/* Called when CC.EN goes from 1 to 0, and at the end of the controller. */
void ctrl_notices_reset(struct ctrl *ctrl);

/* ---- for people: control reactor ------------------------------------------------------------- */

/*
 * Unregisters every host and releases the reservation. Keeps and publishes the change, then calls
 * `done` on the control reactor with 0 or -errno, possibly from inside this call. Hosts get the
 * same notices as for a Clear.
 */
void reservation_clear_by_admin(struct target *target, struct ns_live *live,
				void (*done)(void *arg, int res), void *arg);

#endif
