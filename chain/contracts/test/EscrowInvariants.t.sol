// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EscrowBase} from "./support/EscrowBase.sol";
import {HostileToken} from "./support/Tokens.sol";
import {Check} from "./support/Check.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Escrow} from "../src/escrow/Escrow.sol";
import {IEscrow} from "../src/escrow/IEscrow.sol";

/// @notice Plays a market at random: many jobs in two tokens, everyone acts in and out of turn, clocks jump to deadlines
/// and beside them, receivers are blocked, the owner changes everything.
contract Market is Check {
    Escrow public immutable escrow;
    IERC20[2] public tokens;
    address[6] public people; // creator, worker, approver, arbitrator, treasury, dead
    bytes32[] public jobs;
    mapping(bytes32 => uint256) public held; // what a job that has not ended holds
    mapping(bytes32 => uint32) public seq;
    mapping(bytes32 => IEscrow.Status) public last;
    uint256 public ended;

    constructor(Escrow escrow_, IERC20[2] memory tokens_, address[6] memory people_) {
        (escrow, tokens, people) = (escrow_, tokens_, people_);
    }

    function count() external view returns (uint256) {
        return jobs.length;
    }

    function publish(uint128 reward, uint128 bond, uint8 token, uint32 days_) external {
        IEscrow.Terms memory t;
        (t.creator, t.approver, t.arbitrator) = (people[0], people[2], people[3]);
        t.token = tokens[token % 2];
        t.reward = uint128(within(reward, 1, 1e9));
        t.creatorBond = uint128(within(bond, 1e6, 1e8));
        t.workerBond = uint128(within(bond / 7, 1e6, 1e8));
        t.deliveryDeadline = uint64(block.timestamp + within(days_, 1, 10) * 1 days);
        (t.reviewWindow, t.disputeWindow, t.arbitrationWindow) = (3600, 7200, 43200);
        (t.feeBps, t.forfeitBps) = (escrow.feeBps(), escrow.forfeitBps());
        t.salt = bytes32(jobs.length);
        vm.prank(people[0]);
        try escrow.publish(t) returns (bytes32 id) {
            jobs.push(id);
        } catch {
            yes(escrow.paused(), "only a pause stops publishing");
        }
    }

    function activate(uint256 which) external {
        if (jobs.length == 0) return;
        bytes32 id = jobs[which % jobs.length];
        IEscrow.Selection memory s =
            IEscrow.Selection(id, people[1], 1, uint64(block.timestamp + 1), uint64(1 + which % 3));
        vm.prank(people[0]);
        try escrow.select(s, "") {} catch {}
        vm.prank(people[1]);
        try escrow.activate(s, "") {} catch {}
        _see(id);
    }

    function act(uint256 which, uint8 what, uint8 who, uint8 violation) external {
        if (jobs.length == 0) return;
        bytes32 id = jobs[which % jobs.length];
        bytes memory call;
        if (what % 7 == 0) call = abi.encodeCall(IEscrow.submit, (id, 0));
        if (what % 7 == 1) call = abi.encodeCall(IEscrow.approve, (id));
        if (what % 7 == 2) call = abi.encodeCall(IEscrow.reject, (id, IEscrow.Violation(violation % 3), 0));
        if (what % 7 == 3) call = abi.encodeCall(IEscrow.dispute, (id, 0));
        if (what % 7 == 4) call = abi.encodeCall(IEscrow.rule, (id, violation % 2 == 0, 0));
        if (what % 7 == 5) call = abi.encodeCall(IEscrow.cancel, (id));
        if (what % 7 == 6) call = abi.encodeCall(IEscrow.settle, (id));
        vm.prank(people[who % 4]);
        (bool ok,) = address(escrow).call(call);
        ok; // a refusal is as good as a step
        _see(id);
    }

    // Does what is next, so that jobs come far.
    function advance(uint256 which, uint8 choice) external {
        if (jobs.length == 0) return;
        bytes32 id = jobs[which % jobs.length];
        (IEscrow.Action action, address actor,) = escrow.next(id);
        bytes memory call = abi.encodeCall(IEscrow.settle, (id));
        if (action == IEscrow.Action.SubmitWork) call = abi.encodeCall(IEscrow.submit, (id, 0));
        if (action == IEscrow.Action.ApproveOrReject) {
            call = abi.encodeCall(IEscrow.reject, (id, IEscrow.Violation(choice % 3), 0));
            if (choice % 4 == 0) call = abi.encodeCall(IEscrow.approve, (id));
        }
        if (action == IEscrow.Action.DisputeOrWait) call = abi.encodeCall(IEscrow.dispute, (id, 0));
        if (action == IEscrow.Action.Rule) call = abi.encodeCall(IEscrow.rule, (id, choice % 2 == 0, 0));
        if (action == IEscrow.Action.None || action == IEscrow.Action.SelectWorker) return;
        vm.prank(actor);
        (bool ok,) = address(escrow).call(call);
        yes(ok, "the next action can always be done");
        _see(id);
    }

    function wait(uint256 which, uint8 beside) external {
        if (jobs.length == 0) return;
        (,, uint64 deadline) = escrow.next(jobs[which % jobs.length]);
        if (deadline == 0) deadline = uint64(block.timestamp + beside);
        vm.warp(deadline - 1 + beside % 3 > block.timestamp ? deadline - 1 + beside % 3 : block.timestamp + 1);
    }

    function block_(uint8 who, bool is_) external {
        HostileToken(address(tokens[1])).setBlocked(people[who % 6], is_);
    }

    function collect(uint8 who, uint8 token, uint8 max) external {
        try escrow.recover(tokens[token % 2], people[who % 6], max) {} catch {}
    }

    function draw(uint8 who, uint8 token, uint8 max) external {
        vm.prank(people[who % 6]);
        try escrow.withdraw(tokens[token % 2], people[who % 6], max) {} catch {}
    }

    function govern(uint16 fee, uint16 forfeit, bool pause) external {
        vm.prank(escrow.owner());
        escrow.setFees(fee % 1001, forfeit % 5001);
        if (pause == escrow.paused()) return;
        vm.prank(escrow.owner());
        pause ? escrow.pause() : escrow.resume();
    }

    // Statuses only go forward, seq only rises, and each job ends at most once.
    function _see(bytes32 id) private {
        IEscrow.Job memory j = escrow.job(id);
        yes(j.status >= last[id], "forward");
        yes(j.seq >= seq[id], "seq");
        if (last[id] >= IEscrow.Status.Completed) yes(j.status == last[id], "final stays");
        else if (j.status >= IEscrow.Status.Completed) ended++;
        (last[id], seq[id]) = (j.status, j.seq);
    }
}

contract EscrowInvariantsTest is EscrowBase {
    Market internal market;
    HostileToken internal host;
    uint256 internal constant RICH = 1e15;

    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(market);
    }

    function setUp() public override {
        super.setUp();
        host = new HostileToken();
        list(address(host));
        usd.mint(creator, RICH - 2 * PURSE);
        usd.mint(worker, RICH);
        host.mint(creator, RICH);
        host.mint(worker, RICH);
        allow(address(host), creator);
        allow(address(host), worker);
        market = new Market(
            escrow,
            [IERC20(address(usd)), IERC20(address(host))],
            [creator, worker, approver, arbitrator, treasury, dead]
        );
    }

    function invariant_MoneyIsConservedPerTokenToTheUnit() public view {
        for (uint256 k = 0; k < 2; k++) {
            IERC20 token = k == 0 ? IERC20(address(usd)) : IERC20(address(host));
            uint256 sum = token.balanceOf(address(escrow));
            for (uint256 i = 0; i < 6; i++) {
                sum += token.balanceOf(market.people(i));
            }
            eq(sum, token.totalSupply(), "supply");
            eq(token.balanceOf(address(escrow)), escrow.locked(token), "locked is what is there");
            eq(escrow.locked(token), heldByJobs(token) + owedToAll(token), "locked is what jobs hold and what is owed");
        }
    }

    function invariant_EveryJobIsFinalOrHasAnActorAndADeadlineOrIsDue() public view {
        for (uint256 i = 0; i < market.count(); i++) {
            IEscrow.Job memory j = escrow.job(market.jobs(i));
            (IEscrow.Action action, address actor, uint64 deadline) = escrow.next(market.jobs(i));
            if (j.status >= IEscrow.Status.Completed) {
                yes(action == IEscrow.Action.None, "nothing is next");
                continue;
            }
            yes(action != IEscrow.Action.None, "something is next");
            if (deadline > 0) yes(deadline > block.timestamp && actor != address(0), "an actor until a deadline");
            if (deadline > 0) yes(deadline <= block.timestamp + 365 days, "the deadline will come");
            else yes(actor == address(0) || actor == creator, "due to anyone");
        }
    }

    function heldByJobs(IERC20 token) private view returns (uint256 sum) {
        for (uint256 i = 0; i < market.count(); i++) {
            IEscrow.Job memory j = escrow.job(market.jobs(i));
            if (address(j.token) != address(token) || j.status >= IEscrow.Status.Completed) continue;
            sum += uint256(j.reward) + j.creatorBond + (j.status == IEscrow.Status.Open ? 0 : j.workerBond);
        }
    }

    function owedToAll(IERC20 token) private view returns (uint256 sum) {
        for (uint256 i = 0; i < 6; i++) {
            (uint256 amount,) = escrow.owed(market.people(i), token);
            sum += amount;
        }
    }
}
