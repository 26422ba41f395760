// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IEscrow} from "./IEscrow.sol";
import {EscrowMoney} from "./EscrowMoney.sol";
import {EscrowPolicy} from "./EscrowPolicy.sol";

interface IAgentWallets {
    function getAgentWallet(uint256 agentId) external view returns (address);
}

/// @title The escrow of hires: what happens to a job, by whom and until when.
/// @notice It holds reward and bonds from publication to the end and divides them by what happened. Silence has a
/// meaning in every status and anyone may call it out, so no job can be stuck. There is no code to change it, no way to
/// sweep it, and the owner has no say in a job.
contract Escrow is EscrowMoney, EscrowPolicy {
    /// @notice How long after publication a creator may cancel for free.
    uint64 public constant FREE_CANCEL = 10 minutes;

    /// @notice Where burned bonds go.
    address public constant DEAD = 0x000000000000000000000000000000000000dEaD;

    /// @notice The registry that says which wallet an agent works with.
    IAgentWallets public immutable identity;

    constructor(address owner_, address treasury_, IAgentWallets identity_, Minimums memory minimums)
        EscrowPolicy(owner_, treasury_, minimums)
    {
        identity = identity_;
    }

    /// @inheritdoc IEscrow
    function publish(Terms calldata t) external nonReentrant returns (bytes32 jobId) {
        _requireSender(t.creator);
        jobId = _open(t);
        _pull(t.token, t.creator, _stake(t));
    }

    /// @inheritdoc IEscrow
    function publishWithPermit(Terms calldata t, uint256 deadline, uint8 v, bytes32 r, bytes32 s)
        external
        nonReentrant
        returns (bytes32 jobId)
    {
        _requireSender(t.creator);
        jobId = _open(t);
        _pullWithPermit(t.token, t.creator, _stake(t), deadline, v, r, s);
    }

    /// @inheritdoc IEscrow
    function publishWithAuthorization(
        Terms calldata t,
        uint256 validAfter,
        uint256 validBefore,
        bytes calldata signature
    ) external nonReentrant returns (bytes32 jobId) {
        jobId = _open(t);
        _receive(t.token, t.creator, _stake(t), validAfter, validBefore, jobId, signature);
    }

    /// @inheritdoc IEscrow
    function select(Selection calldata s, bytes calldata signature) external nonReentrant {
        _select(_at(s.jobId, Status.Open), s, signature);
    }

    /// @inheritdoc IEscrow
    function activate(Selection calldata s, bytes calldata signature) external nonReentrant {
        _requireSender(s.worker);
        Job storage j = _activate(s, signature);
        _pull(j.token, s.worker, j.workerBond);
    }

    /// @inheritdoc IEscrow
    function activateWithPermit(
        Selection calldata s,
        bytes calldata signature,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s_
    ) external nonReentrant {
        _requireSender(s.worker);
        Job storage j = _activate(s, signature);
        _pullWithPermit(j.token, s.worker, j.workerBond, deadline, v, r, s_);
    }

    /// @inheritdoc IEscrow
    function activateWithAuthorization(
        Selection calldata s,
        bytes calldata signature,
        uint256 validAfter,
        uint256 validBefore,
        bytes calldata authorization
    ) external nonReentrant {
        Job storage j = _activate(s, signature);
        bytes32 nonce = activationNonce(s.jobId, s.worker, s.workerAgentId);
        _receive(j.token, s.worker, j.workerBond, validAfter, validBefore, nonce, authorization);
    }

    /// @inheritdoc IEscrow
    function submit(bytes32 jobId, bytes32 deliverableHash) external nonReentrant {
        Job storage j = _at(jobId, Status.Active);
        _requireTurn(j, j.worker);
        uint64 until = _enter(j, Status.Submitted);
        emit WorkSubmitted(jobId, j.worker, _nextSeq(jobId), deliverableHash, until);
    }

    /// @inheritdoc IEscrow
    function approve(bytes32 jobId) external nonReentrant {
        Job storage j = _at(jobId, Status.Submitted);
        _requireTurn(j, j.approver);
        _end(jobId, j, Outcome.Approved);
    }

    /// @inheritdoc IEscrow
    function reject(bytes32 jobId, Violation violation, bytes32 reasonHash) external nonReentrant {
        Job storage j = _at(jobId, Status.Submitted);
        _requireTurn(j, j.approver);
        j.violation = violation;
        uint64 until = _enter(j, Status.RejectedPending);
        emit WorkRejected(jobId, j.approver, _nextSeq(jobId), violation, reasonHash, until);
    }

    /// @inheritdoc IEscrow
    function dispute(bytes32 jobId, bytes32 statementHash) external nonReentrant {
        Job storage j = _at(jobId, Status.RejectedPending);
        _requireTurn(j, j.worker);
        uint64 until = _enter(j, Status.Disputed);
        emit RejectionDisputed(jobId, j.worker, _nextSeq(jobId), statementHash, until);
    }

    /// @inheritdoc IEscrow
    function rule(bytes32 jobId, bool forWorker, bytes32 rulingHash) external nonReentrant {
        Job storage j = _at(jobId, Status.Disputed);
        _requireTurn(j, j.arbitrator);
        emit JobRuled(jobId, j.arbitrator, _nextSeq(jobId), forWorker, rulingHash);
        _end(jobId, j, forWorker ? Outcome.RuledForWorker : Outcome.RuledForCreator);
    }

    /// @inheritdoc IEscrow
    function cancel(bytes32 jobId) external nonReentrant {
        Job storage j = _at(jobId, Status.Open);
        _requireSender(j.creator);
        _end(jobId, j, block.timestamp < j.deliveryDeadline ? Outcome.Cancelled : Outcome.NeverActivated);
    }

    /// @inheritdoc IEscrow
    function settle(bytes32 jobId) external nonReentrant {
        Job storage j = _jobs[jobId];
        if (!_live(j.status)) revert WrongStatus(jobId, j.status);
        uint64 deadline = _deadline(j);
        if (block.timestamp < deadline) revert TooEarly(deadline);
        _end(jobId, j, _silence(j.status));
    }

    /// @inheritdoc IEscrow
    function job(bytes32 jobId) external view returns (Job memory) {
        return _jobs[jobId];
    }

    /// @inheritdoc IEscrow
    function next(bytes32 jobId) external view returns (Action action, address actor, uint64 deadline) {
        Job storage j = _jobs[jobId];
        if (!_live(j.status)) return (Action.None, address(0), 0);
        deadline = _deadline(j);
        bool inTime = block.timestamp < deadline;
        if (!inTime) deadline = 0;
        if (j.status == Status.Open) {
            return (inTime ? Action.SelectWorker : Action.CancelTask, j.creator, deadline);
        }
        if (!inTime) return (_due(j.status), address(0), 0);
        if (j.status == Status.Active) return (Action.SubmitWork, j.worker, deadline);
        if (j.status == Status.Submitted) return (Action.ApproveOrReject, j.approver, deadline);
        if (j.status == Status.RejectedPending) return (Action.DisputeOrWait, j.worker, deadline);
        return (Action.Rule, j.arbitrator, deadline);
    }

    /// @inheritdoc IEscrow
    function jobIdOf(Terms calldata t) public view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), t));
    }

    /// @inheritdoc IEscrow
    function activationNonce(bytes32 jobId, address worker, uint256 workerAgentId) public pure returns (bytes32) {
        return keccak256(abi.encode("activate", jobId, worker, workerAgentId));
    }

    function _open(Terms calldata t) private returns (bytes32 jobId) {
        _checkTerms(t);
        if (t.creatorAgentId != 0) _requireWallet(t.creatorAgentId, t.creator);
        jobId = jobIdOf(t);
        Job storage j = _jobs[jobId];
        if (j.status != Status.None) revert JobExists(jobId);
        (j.creator, j.approver, j.arbitrator, j.treasury) = (t.creator, t.approver, t.arbitrator, treasury);
        (j.token, j.reward, j.creatorBond, j.workerBond) = (t.token, t.reward, t.creatorBond, t.workerBond);
        (j.feeBps, j.forfeitBps, j.deliveryDeadline) = (t.feeBps, t.forfeitBps, t.deliveryDeadline);
        (j.reviewWindow, j.disputeWindow, j.arbitrationWindow) = (t.reviewWindow, t.disputeWindow, t.arbitrationWindow);
        (j.status, j.publishedAt, j.clock) = (Status.Open, uint64(block.timestamp), uint64(block.timestamp));
        locked[t.token] += _stake(t);
        emit JobPublished(jobId, t.creator, _nextSeq(jobId), j.treasury, t);
    }

    /// @dev Refuses what the creator did not sign, cannot mean, or has promised to another worker.
    function _select(Job storage j, Selection calldata s, bytes calldata signature) private {
        if (block.timestamp >= j.deliveryDeadline) revert TooLate(j.deliveryDeadline);
        if (block.timestamp >= s.activateBy) revert TooLate(s.activateBy);
        if (s.activateBy > j.deliveryDeadline) revert BadSelection("activateBy");
        if (block.timestamp < j.activateBy) revert AlreadySelected(j.activateBy);
        if (s.nonce <= j.selectionNonce) revert BadSelection("nonce");
        if (s.worker == address(0) || s.worker == address(this)) revert BadSelection("worker");
        if (s.worker == j.creator || s.worker == j.approver || s.worker == j.arbitrator) revert Conflict(s.worker);
        _requireWallet(s.workerAgentId, s.worker);
        if (_sender() != j.creator) _requireSelectedBy(j.creator, s, signature);
        (j.worker, j.workerAgentId, j.activateBy, j.selectionNonce) = (s.worker, s.workerAgentId, s.activateBy, s.nonce);
        emit WorkerSelected(s.jobId, s.worker, _nextSeq(s.jobId), s.workerAgentId, s.activateBy, s.nonce);
    }

    function _activate(Selection calldata s, bytes calldata signature) private returns (Job storage j) {
        j = _at(s.jobId, Status.Open);
        if (_onRecord(j, s)) {
            if (block.timestamp >= s.activateBy) revert TooLate(s.activateBy);
            _requireWallet(s.workerAgentId, s.worker);
        } else {
            _select(j, s, signature);
        }
        j.pausesBefore = _pausesEnded();
        locked[j.token] += j.workerBond;
        _enter(j, Status.Active);
        emit JobActivated(s.jobId, s.worker, _nextSeq(s.jobId), s.workerAgentId, j.deliveryDeadline);
    }

    function _onRecord(Job storage j, Selection calldata s) private view returns (bool) {
        return j.worker == s.worker && j.workerAgentId == s.workerAgentId && j.activateBy == s.activateBy
            && j.selectionNonce == s.nonce;
    }

    function _enter(Job storage j, Status status) private returns (uint64 deadline) {
        (j.status, j.clock) = (status, uint64(block.timestamp));
        return _deadline(j);
    }

    function _end(bytes32 jobId, Job storage j, Outcome outcome) private {
        Split memory s = _split(j, outcome);
        address forfeitTo = j.treasury;
        // A selection that still stands makes the worker the one who is let down.
        if (outcome == Outcome.Cancelled && block.timestamp < j.activateBy) {
            (forfeitTo, s.toWorker, s.toTreasury) = (j.worker, s.toTreasury, 0);
        }
        IERC20 token = j.token;
        locked[token] -= s.toWorker + s.toCreator + s.toTreasury + s.burned;
        _enter(j, _final(outcome));
        emit JobEnded(jobId, outcome, _nextSeq(jobId), j.status, s);
        _pay(jobId, token, j.worker, s.toWorker);
        _pay(jobId, token, j.creator, s.toCreator);
        _pay(jobId, token, forfeitTo, s.toTreasury);
        _pay(jobId, token, DEAD, s.burned);
    }

    /// @dev Divides what the job holds. Rounding is in favour of who pays a share.
    function _split(Job storage j, Outcome outcome) private view returns (Split memory s) {
        uint256 bond = j.status == Status.Open ? 0 : j.workerBond;
        Status ending = _final(outcome);
        if (ending == Status.Completed) {
            s.toTreasury = uint256(j.reward) * j.feeBps / 10_000;
            s.toWorker = j.reward - s.toTreasury + bond;
            s.toCreator = j.creatorBond;
            return s;
        }
        if (ending == Status.Cancelled && block.timestamp >= j.publishedAt + FREE_CANCEL) {
            s.toTreasury = uint256(j.creatorBond) * j.forfeitBps / 10_000;
        }
        s.toCreator = uint256(j.reward) + j.creatorBond - s.toTreasury;
        if (_burns(j, outcome)) s.burned = bond;
        else s.toWorker = bond;
    }

    /// @dev A worker loses its bond for a delivery that never came, unless a pause excuses it, and for a rejection with a
    /// violation that it left undisputed or that was upheld. For nothing else.
    function _burns(Job storage j, Outcome outcome) private view returns (bool) {
        if (outcome == Outcome.NoDelivery) return !_pausedBetween(j.pausesBefore, j.deliveryDeadline);
        return
            (outcome == Outcome.RejectionStood || outcome == Outcome.RuledForCreator) && j.violation != Violation.None;
    }

    function _at(bytes32 jobId, Status status) private view returns (Job storage j) {
        j = _jobs[jobId];
        if (j.status != status) revert WrongStatus(jobId, j.status);
    }

    function _requireSender(address account) private view {
        if (_sender() != account) revert NotActor(_sender());
    }

    function _requireTurn(Job storage j, address actor) private view {
        _requireSender(actor);
        uint64 deadline = _deadline(j);
        if (block.timestamp >= deadline) revert TooLate(deadline);
    }

    function _requireWallet(uint256 agentId, address wallet) private view {
        if (identity.getAgentWallet(agentId) != wallet) revert WalletMismatch(agentId, wallet);
    }

    function _deadline(Job storage j) private view returns (uint64) {
        if (j.status == Status.Submitted) return j.clock + j.reviewWindow;
        if (j.status == Status.RejectedPending) return j.clock + j.disputeWindow;
        if (j.status == Status.Disputed) return j.clock + j.arbitrationWindow;
        return j.deliveryDeadline;
    }

    function _stake(Terms calldata t) private pure returns (uint256) {
        return uint256(t.reward) + t.creatorBond;
    }

    function _live(Status status) private pure returns (bool) {
        return status != Status.None && status < Status.Completed;
    }

    /// @dev What it means that the deadline of a status passed.
    function _silence(Status status) private pure returns (Outcome) {
        if (status == Status.Open) return Outcome.NeverActivated;
        if (status == Status.Active) return Outcome.NoDelivery;
        if (status == Status.Submitted) return Outcome.ReviewSilence;
        if (status == Status.RejectedPending) return Outcome.RejectionStood;
        return Outcome.ArbitrationSilence;
    }

    /// @dev What anyone may do once the deadline of a status passed.
    function _due(Status status) private pure returns (Action) {
        if (status == Status.Active) return Action.SettleMissedDelivery;
        if (status == Status.Submitted) return Action.CompleteAfterSilence;
        if (status == Status.RejectedPending) return Action.SettleRejection;
        return Action.SettleArbitrationTimeout;
    }

    function _final(Outcome outcome) private pure returns (Status) {
        if (outcome == Outcome.Approved || outcome == Outcome.ReviewSilence || outcome == Outcome.RuledForWorker) {
            return Status.Completed;
        }
        if (outcome == Outcome.RejectionStood || outcome == Outcome.RuledForCreator) return Status.Rejected;
        if (outcome == Outcome.NoDelivery || outcome == Outcome.ArbitrationSilence) return Status.Expired;
        return Status.Cancelled;
    }
}
