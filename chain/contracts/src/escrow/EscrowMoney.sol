// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {IEscrow} from "./IEscrow.sol";
import {EscrowRelay} from "./EscrowRelay.sol";

/// @title Money in, and money out that waits for nobody.
/// @notice What comes in must arrive in full. What goes out is tried once; if the token or the receiver refuses, it is
/// owed, and the others get theirs all the same. What is owed is recovered oldest first.
abstract contract EscrowMoney is IEscrow, EscrowRelay, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;

    struct Deferred {
        bytes32 jobId;
        uint256 amount;
    }

    struct Queue {
        uint256 total;
        uint256 head; // of items: the oldest that is still owed
        Deferred[] items;
    }

    /// @notice The gas that a payout gets. Enough for any ordinary token, and a bound on what a hostile one can burn.
    uint256 public constant PAYOUT_GAS = 150_000;

    // What must be left for a payout to get all of its gas, since a call passes on at most 63/64 of what there is.
    // Without this, who settles could starve a payout and have it deferred.
    uint256 private constant PAYOUT_GAS_LEFT = PAYOUT_GAS * 64 / 63 + 10_000;

    mapping(bytes32 jobId => Job) internal _jobs;
    mapping(address owner => mapping(IERC20 token => Queue)) private _queues;

    /// @inheritdoc IEscrow
    mapping(IERC20 token => uint256) public locked;

    /// @inheritdoc IEscrow
    function owed(address owner, IERC20 token) external view returns (uint256 amount, uint256 items) {
        Queue storage q = _queues[owner][token];
        return (q.total, q.items.length - q.head);
    }

    /// @inheritdoc IEscrow
    function recover(IERC20 token, address owner, uint256 max) external nonReentrant {
        Queue storage q = _queues[owner][token];
        if (max == 0 || q.total == 0) revert NothingOwed(owner, address(token));
        for (uint256 i = 0; i < max && q.head < q.items.length; i++) {
            Deferred memory oldest = _take(q, token);
            if (!_tryPay(token, owner, oldest.amount)) {
                // The first refusal is worth telling; a later one keeps what was recovered before it.
                if (i == 0) revert StillRefused(owner, address(token));
                _putBack(q, token, oldest);
                return;
            }
            emit PayoutRecovered(oldest.jobId, owner, _nextSeq(oldest.jobId), address(token), oldest.amount, owner);
        }
    }

    /// @inheritdoc IEscrow
    function withdraw(IERC20 token, address to, uint256 max) external nonReentrant returns (uint256 amount) {
        address owner = _sender();
        Queue storage q = _queues[owner][token];
        if (max == 0 || q.total == 0) revert NothingOwed(owner, address(token));
        if (to == address(this)) revert Conflict(to);
        for (uint256 i = 0; i < max && q.head < q.items.length; i++) {
            Deferred memory oldest = _take(q, token);
            amount += oldest.amount;
            emit PayoutRecovered(oldest.jobId, owner, _nextSeq(oldest.jobId), address(token), oldest.amount, to);
        }
        token.safeTransfer(to, amount);
    }

    /// @notice Pays, or reverts as a whole. For the contract alone, which calls itself so that a payout that is refused
    /// has moved nothing, whatever the token did before it refused.
    function payOut(IERC20 token, address to, uint256 amount) external {
        if (msg.sender != address(this)) revert NotActor(msg.sender);
        token.safeTransfer(to, amount);
    }

    /// @dev Takes an amount out of an allowance.
    function _pull(IERC20 token, address from, uint256 amount) internal {
        uint256 before = token.balanceOf(address(this));
        token.safeTransferFrom(from, address(this), amount);
        _arrived(token, before, amount);
    }

    /// @dev The same with a permit. One that fails may have been used by somebody else a moment ago, and then the
    /// allowance is there; if it is not, the transfer says so.
    function _pullWithPermit(
        IERC20 token,
        address from,
        uint256 amount,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) internal {
        try IPermit(address(token)).permit(from, address(this), amount, deadline, v, r, s) {} catch {}
        _pull(token, from, amount);
    }

    /// @dev Takes an amount by an authorization to receive. Its nonce says what it is for.
    function _receive(
        IERC20 token,
        address from,
        uint256 amount,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) internal {
        uint256 before = token.balanceOf(address(this));
        IReceiveWithAuthorization(address(token))
            .receiveWithAuthorization(from, address(this), amount, validAfter, validBefore, nonce, signature);
        _arrived(token, before, amount);
    }

    /// @dev Pays or defers. What the job held is released by the caller, all at once.
    function _pay(bytes32 jobId, IERC20 token, address to, uint256 amount) internal {
        if (amount == 0) return;
        if (_tryPay(token, to, amount)) {
            emit Paid(jobId, to, _nextSeq(jobId), address(token), amount);
            return;
        }
        Queue storage q = _queues[to][token];
        q.items.push(Deferred(jobId, amount));
        q.total += amount;
        locked[token] += amount;
        emit PayoutDeferred(jobId, to, _nextSeq(jobId), address(token), amount);
    }

    function _nextSeq(bytes32 jobId) internal returns (uint32) {
        return ++_jobs[jobId].seq;
    }

    function _tryPay(IERC20 token, address to, uint256 amount) private returns (bool) {
        if (gasleft() < PAYOUT_GAS_LEFT) revert MoreGas(PAYOUT_GAS_LEFT);
        try this.payOut{gas: PAYOUT_GAS}(token, to, amount) {
            return true;
        } catch {
            return false;
        }
    }

    function _take(Queue storage q, IERC20 token) private returns (Deferred memory oldest) {
        oldest = q.items[q.head];
        delete q.items[q.head++];
        q.total -= oldest.amount;
        locked[token] -= oldest.amount;
    }

    function _putBack(Queue storage q, IERC20 token, Deferred memory oldest) private {
        q.items[--q.head] = oldest;
        q.total += oldest.amount;
        locked[token] += oldest.amount;
    }

    function _arrived(IERC20 token, uint256 before, uint256 want) private view {
        uint256 got = token.balanceOf(address(this)) - before;
        if (got != want) revert ShortTransfer(want, got);
    }
}

interface IPermit {
    function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s)
        external;
}

interface IReceiveWithAuthorization {
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external;
}
