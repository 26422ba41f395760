// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EscrowBase} from "./support/EscrowBase.sol";
import {Escrow, IAgentWallets} from "../src/escrow/Escrow.sol";
import {EscrowPolicy} from "../src/escrow/EscrowPolicy.sol";
import {IEscrow} from "../src/escrow/IEscrow.sol";
import {TestUSD} from "../src/TestUSD.sol";
import {Vm} from "./support/Check.sol";

/// @notice Every way that a job can go, second by second and unit by unit.
contract EscrowLifeTest is EscrowBase {
    function test_ApprovedWorkIsPaidLessTheFeeAndBothBondsReturn() public {
        bytes32 id = submitted();
        due(id, IEscrow.Action.ApproveOrReject, approver, START + WINDOW);
        vm.prank(approver);
        escrow.approve(id);
        paid(id, IEscrow.Status.Completed, -int256(uint256(REWARD)), 97_500_000, 2_500_000, 0);
    }

    function test_SilenceAfterDeliveryPaysTheWorker() public {
        bytes32 id = submitted();
        vm.warp(START + WINDOW - 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.TooEarly.selector, START + WINDOW));
        escrow.settle(id);
        vm.warp(START + WINDOW);
        due(id, IEscrow.Action.CompleteAfterSilence, address(0), 0);
        vm.prank(approver);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.TooLate.selector, START + WINDOW));
        escrow.approve(id);
        vm.prank(approver);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.TooLate.selector, START + WINDOW));
        escrow.reject(id, IEscrow.Violation.Quality, 0);
        escrow.settle(id);
        paid(id, IEscrow.Status.Completed, -int256(uint256(REWARD)), 97_500_000, 2_500_000, 0);
    }

    function test_WorkCanBeRejectedUntilTheLastSecondOfTheReview() public {
        bytes32 id = submitted();
        vm.warp(START + WINDOW - 1);
        vm.prank(approver);
        escrow.reject(id, IEscrow.Violation.None, keccak256("late but in time"));
        due(id, IEscrow.Action.DisputeOrWait, worker, START + 3 * WINDOW - 1);
    }

    function test_ARejectionWithoutViolationThatStandsRefundsAndBurnsNothing() public {
        stands(IEscrow.Violation.None, 0, 0);
    }

    function test_ARejectionForQualityThatStandsBurnsTheWorkersBond() public {
        stands(IEscrow.Violation.Quality, -int256(uint256(WORKER_BOND)), WORKER_BOND);
    }

    function test_ARejectionForFalsifiedWorkThatStandsBurnsTheWorkersBond() public {
        stands(IEscrow.Violation.Falsified, -int256(uint256(WORKER_BOND)), WORKER_BOND);
    }

    function stands(IEscrow.Violation v, int256 toWorker, uint256 burned) private {
        bytes32 id = rejected(v);
        due(id, IEscrow.Action.DisputeOrWait, worker, START + 2 * WINDOW);
        vm.warp(START + 2 * WINDOW - 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.TooEarly.selector, START + 2 * WINDOW));
        escrow.settle(id);
        vm.warp(START + 2 * WINDOW);
        due(id, IEscrow.Action.SettleRejection, address(0), 0);
        vm.prank(worker);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.TooLate.selector, START + 2 * WINDOW));
        escrow.dispute(id, 0);
        escrow.settle(id);
        paid(id, IEscrow.Status.Rejected, 0, toWorker, 0, burned);
    }

    function test_ARulingForTheWorkerPaysItInFull() public {
        bytes32 id = disputed(IEscrow.Violation.Falsified);
        due(id, IEscrow.Action.Rule, arbitrator, START + 12 * WINDOW);
        vm.prank(arbitrator);
        escrow.rule(id, true, keccak256("ruling"));
        paid(id, IEscrow.Status.Completed, -int256(uint256(REWARD)), 97_500_000, 2_500_000, 0);
    }

    function test_AnUpheldViolationBurnsTheWorkersBond() public {
        bytes32 id = disputed(IEscrow.Violation.Quality);
        vm.prank(arbitrator);
        escrow.rule(id, false, keccak256("ruling"));
        paid(id, IEscrow.Status.Rejected, 0, -int256(uint256(WORKER_BOND)), 0, WORKER_BOND);
    }

    function test_AnUpheldRejectionWithoutViolationBurnsNothing() public {
        bytes32 id = disputed(IEscrow.Violation.None);
        vm.prank(arbitrator);
        escrow.rule(id, false, keccak256("ruling"));
        paid(id, IEscrow.Status.Rejected, 0, 0, 0, 0);
    }

    function test_AnArbitratorsSilenceRefundsAndBurnsNothing() public {
        bytes32 id = disputed(IEscrow.Violation.Falsified);
        vm.warp(START + 12 * WINDOW - 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.TooEarly.selector, START + 12 * WINDOW));
        escrow.settle(id);
        vm.warp(START + 12 * WINDOW);
        due(id, IEscrow.Action.SettleArbitrationTimeout, address(0), 0);
        vm.prank(arbitrator);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.TooLate.selector, START + 12 * WINDOW));
        escrow.rule(id, true, 0);
        escrow.settle(id);
        paid(id, IEscrow.Status.Expired, 0, 0, 0, 0);
    }

    function test_AWorkerThatDoesNotDeliverLosesItsBond() public {
        bytes32 id = activated();
        due(id, IEscrow.Action.SubmitWork, worker, START + 7 days);
        vm.warp(START + 7 days - 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.TooEarly.selector, START + 7 days));
        escrow.settle(id);
        vm.warp(START + 7 days);
        due(id, IEscrow.Action.SettleMissedDelivery, address(0), 0);
        vm.prank(worker);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.TooLate.selector, START + 7 days));
        escrow.submit(id, 0);
        escrow.settle(id);
        paid(id, IEscrow.Status.Expired, 0, -int256(uint256(WORKER_BOND)), 0, WORKER_BOND);
    }

    function test_WorkCanBeDeliveredUntilTheLastSecondAndOnceOnly() public {
        bytes32 id = activated();
        vm.warp(START + 7 days - 1);
        vm.prank(worker);
        escrow.submit(id, keccak256("work"));
        vm.prank(worker);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.WrongStatus.selector, id, IEscrow.Status.Submitted));
        escrow.submit(id, keccak256("better work"));
    }

    function test_APauseDuringTheWorkExcusesAMissedDelivery() public {
        bytes32 id = activated();
        vm.warp(START + 1 days);
        escrow.pause();
        vm.warp(START + 1 days + 1);
        escrow.resume();
        noShow(id, false);
    }

    function test_APauseThatBeganBeforeActivationAndLastedExcusesToo() public {
        bytes32 id = published();
        escrow.pause();
        vm.warp(START + 10);
        activate(selection(id));
        vm.warp(START + 20);
        escrow.resume();
        noShow(id, false);
    }

    function test_APauseThatBeganInTheLastSecondExcusesToo() public {
        bytes32 id = activated();
        vm.warp(START + 7 days - 1);
        escrow.pause();
        noShow(id, false);
    }

    function test_PausesBeforeAndAfterTheWorkExcuseNothing() public {
        bytes32 id = published();
        escrow.pause();
        escrow.resume();
        activate(selection(id));
        vm.warp(START + 7 days);
        escrow.pause();
        noShow(id, true);
    }

    function noShow(bytes32 id, bool burns) private {
        vm.warp(START + 7 days);
        escrow.settle(id);
        if (burns) paid(id, IEscrow.Status.Expired, 0, -int256(uint256(WORKER_BOND)), 0, WORKER_BOND);
        else paid(id, IEscrow.Status.Expired, 0, 0, 0, 0);
    }

    function test_CancellingIsFreeForTenMinutesToTheSecond() public {
        bytes32 id = published();
        due(id, IEscrow.Action.SelectWorker, creator, START + 7 days);
        vm.warp(START + 10 minutes - 1);
        vm.prank(creator);
        escrow.cancel(id);
        paid(id, IEscrow.Status.Cancelled, 0, 0, 0, 0);
    }

    function test_CancellingLaterForfeitsAQuarterOfTheBondToTheTreasury() public {
        bytes32 id = published();
        vm.warp(START + 10 minutes);
        vm.prank(creator);
        escrow.cancel(id);
        paid(id, IEscrow.Status.Cancelled, -2e6, 0, 2e6, 0);
    }

    function test_CancellingWhileASelectionStandsForfeitsToTheWorker() public {
        bytes32 id = published();
        IEscrow.Selection memory s = selection(id);
        escrow.select(s, selectionSignature(s));
        vm.warp(s.activateBy - 1);
        vm.prank(creator);
        escrow.cancel(id);
        paid(id, IEscrow.Status.Cancelled, -2e6, 2e6, 0, 0);
    }

    function test_CancellingAfterASelectionLapsedForfeitsToTheTreasury() public {
        bytes32 id = published();
        IEscrow.Selection memory s = selection(id);
        escrow.select(s, selectionSignature(s));
        vm.warp(s.activateBy);
        vm.prank(creator);
        escrow.cancel(id);
        paid(id, IEscrow.Status.Cancelled, -2e6, 0, 2e6, 0);
    }

    function test_AJobThatNobodyActivatedLapsesAndAnyoneMaySettleIt() public {
        bytes32 id = published();
        vm.warp(START + 7 days);
        due(id, IEscrow.Action.CancelTask, creator, 0);
        escrow.settle(id);
        paid(id, IEscrow.Status.Cancelled, -2e6, 0, 2e6, 0);
    }

    function test_ALapsedJobCanBeCancelledByItsCreatorWithTheSameOutcome() public {
        bytes32 id = published();
        vm.warp(START + 7 days);
        vm.expectEmit();
        emit IEscrow.JobEnded(
            id, IEscrow.Outcome.NeverActivated, 2, IEscrow.Status.Cancelled, IEscrow.Split(0, 106e6, 2e6, 0)
        );
        vm.prank(creator);
        escrow.cancel(id);
        paid(id, IEscrow.Status.Cancelled, -2e6, 0, 2e6, 0);
    }

    function test_ASelectionOnRecordIsActivatedWithoutASignature() public {
        bytes32 id = published();
        IEscrow.Selection memory s = selection(id);
        vm.prank(creator);
        escrow.select(s, "");
        vm.prank(worker);
        escrow.activate(s, "");
        yes(status(id) == IEscrow.Status.Active, "active");
        eq(escrow.job(id).worker, worker, "worker");
        eq(escrow.job(id).workerAgentId, 1, "agent");
    }

    function test_AnotherWorkerCanBeSelectedOnceTheSelectionLapsed() public {
        bytes32 id = published();
        IEscrow.Selection memory s = selection(id);
        escrow.select(s, selectionSignature(s));
        vm.prank(other);
        identity.register();
        IEscrow.Selection memory second = IEscrow.Selection(id, other, 2, START + 2 days, 2);
        bytes memory signature = selectionSignature(second);
        vm.warp(s.activateBy - 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.AlreadySelected.selector, s.activateBy));
        escrow.select(second, signature);
        vm.warp(s.activateBy);
        escrow.select(second, signature);
        eq(escrow.job(id).worker, other, "selected");
    }

    function test_PublishingWithAPermitNeedsNoAllowance() public {
        vm.prank(creator);
        usd.approve(address(escrow), 0);
        (uint8 v, bytes32 r, bytes32 s) = permitSignature(CREATOR_KEY, REWARD + CREATOR_BOND, START + 60);
        vm.prank(creator);
        bytes32 id = escrow.publishWithPermit(terms(), START + 60, v, r, s);
        yes(status(id) == IEscrow.Status.Open, "open");
    }

    function test_APermitThatSomebodyUsedFirstDoesNoHarm() public {
        vm.prank(creator);
        usd.approve(address(escrow), 0);
        (uint8 v, bytes32 r, bytes32 s) = permitSignature(CREATOR_KEY, REWARD + CREATOR_BOND, START + 60);
        usd.permit(creator, address(escrow), REWARD + CREATOR_BOND, START + 60, v, r, s);
        vm.prank(creator);
        bytes32 id = escrow.publishWithPermit(terms(), START + 60, v, r, s);
        yes(status(id) == IEscrow.Status.Open, "open");
    }

    function test_AnyonePublishesAndActivatesWithAuthorizationsAndTheyAreGoodForThatAlone() public {
        IEscrow.Terms memory t = terms();
        bytes32 id = escrow.jobIdOf(t);
        bytes memory money = signed(CREATOR_KEY, receiveDigest(creator, REWARD + CREATOR_BOND, START + 60, id));
        IEscrow.Terms memory changed = terms();
        changed.salt = 0;
        vm.expectRevert();
        escrow.publishWithAuthorization(changed, 0, START + 60, money);
        eq(escrow.publishWithAuthorization(t, 0, START + 60, money), id, "id");

        IEscrow.Selection memory s = selection(id);
        bytes memory chosen = selectionSignature(s);
        bytes memory bond =
            signed(WORKER_KEY, receiveDigest(worker, WORKER_BOND, START + 60, escrow.activationNonce(id, worker, 1)));
        vm.prank(other);
        escrow.activateWithAuthorization(s, chosen, 0, START + 60, bond);
        yes(status(id) == IEscrow.Status.Active, "active");
        eq(usd.balanceOf(worker), PURSE - WORKER_BOND, "bond");
    }

    function test_AnAuthorizationForOneEscrowPublishesNothingInAnother() public {
        IEscrow.Terms memory t = terms();
        bytes memory money =
            signed(CREATOR_KEY, receiveDigest(creator, REWARD + CREATOR_BOND, START + 60, escrow.jobIdOf(t)));
        Escrow twin = new Escrow(
            address(this), treasury, IAgentWallets(address(identity)), EscrowPolicy.Minimums(WINDOW, WINDOW, WINDOW)
        );
        twin.setToken(t.token, EscrowPolicy.TokenRule(true, 1e6, 1e6));
        vm.expectRevert(TestUSD.InvalidSignature.selector);
        twin.publishWithAuthorization(t, 0, START + 60, money);
        vm.chainId(block.chainid + 1);
        vm.expectRevert(TestUSD.InvalidSignature.selector);
        escrow.publishWithAuthorization(t, 0, START + 60, money);
    }

    function test_ActivatingWithAPermitNeedsNoAllowance() public {
        bytes32 id = published();
        vm.prank(worker);
        usd.approve(address(escrow), 0);
        (uint8 v, bytes32 r, bytes32 s) = permitSignature(WORKER_KEY, WORKER_BOND, START + 60);
        IEscrow.Selection memory chosen = selection(id);
        bytes memory signature = selectionSignature(chosen);
        vm.prank(worker);
        escrow.activateWithPermit(chosen, signature, START + 60, v, r, s);
        yes(status(id) == IEscrow.Status.Active, "active");
    }

    function test_WhatTheOwnerChangesReachesNoJobThatExists() public {
        bytes32 id = submitted();
        escrow.setFees(1000, 5000);
        escrow.setTreasury(other);
        escrow.pause();
        vm.prank(approver);
        escrow.approve(id);
        paid(id, IEscrow.Status.Completed, -int256(uint256(REWARD)), 97_500_000, 2_500_000, 0);
    }

    function test_EventsOfAJobAreNumberedWithoutAGap() public {
        vm.recordLogs();
        bytes32 id = disputed(IEscrow.Violation.Quality);
        vm.prank(arbitrator);
        escrow.rule(id, true, keccak256("ruling"));
        Vm.Log[] memory logs = vm.getRecordedLogs();
        uint256 seq;
        for (uint256 i = 0; i < logs.length; i++) {
            if (logs[i].emitter != address(escrow) || logs[i].topics.length < 3) continue;
            eq(logs[i].topics[1], id, "job of the event");
            (uint256 number) = abi.decode(logs[i].data, (uint256));
            eq(number, ++seq, "seq");
        }
        // published, selected, activated, submitted, rejected, disputed, ruled, ended, three payments
        eq(seq, 11, "events");
        eq(escrow.job(id).seq, seq, "last seq");
    }

    function test_RoundingOfTheFeeFavoursTheWorker() public {
        IEscrow.Terms memory t = terms();
        t.reward = 39; // 2.5 % are 0.975
        bytes32 id = submitted(t);
        vm.prank(approver);
        escrow.approve(id);
        paid(id, IEscrow.Status.Completed, -39, 39, 0, 0);
    }

    function testFuzz_WhateverHappensThePartsAddUp(
        uint128 reward,
        uint128 creatorBond,
        uint128 workerBond,
        uint16 feeBps,
        uint16 forfeitBps,
        uint8 ending
    ) public {
        IEscrow.Terms memory t = terms();
        t.reward = uint128(within(reward, 1, 400e6));
        t.creatorBond = uint128(within(creatorBond, 1e6, 400e6));
        t.workerBond = uint128(within(workerBond, 1e6, 400e6));
        t.feeBps = uint16(within(feeBps, 0, 1000));
        t.forfeitBps = uint16(within(forfeitBps, 0, 5000));
        escrow.setFees(t.feeBps, t.forfeitBps);
        bytes32 id = end(t, ending % 6);
        yes(uint8(status(id)) >= uint8(IEscrow.Status.Completed), "final");
        uint256 sum = usd.balanceOf(creator) + usd.balanceOf(worker) + usd.balanceOf(treasury) + usd.balanceOf(dead);
        eq(sum, 2 * PURSE, "sum");
        eq(usd.balanceOf(address(escrow)), 0, "left in escrow");
    }

    function end(IEscrow.Terms memory t, uint8 ending) private returns (bytes32 id) {
        if (ending == 0) {
            id = published(t);
            vm.warp(START + 1 days);
            vm.prank(creator);
            escrow.cancel(id);
            return id;
        }
        if (ending == 1) {
            id = activated(t);
            vm.warp(t.deliveryDeadline);
            escrow.settle(id);
            return id;
        }
        id = submitted(t);
        if (ending == 2) {
            vm.prank(approver);
            escrow.approve(id);
            return id;
        }
        vm.prank(approver);
        escrow.reject(id, IEscrow.Violation.Quality, 0);
        if (ending > 3) {
            vm.prank(worker);
            escrow.dispute(id, 0);
        }
        if (ending == 5) {
            vm.prank(arbitrator);
            escrow.rule(id, false, 0);
            return id;
        }
        vm.warp(block.timestamp + 1 days);
        escrow.settle(id);
    }
}
