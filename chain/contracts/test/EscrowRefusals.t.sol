// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EscrowBase} from "./support/EscrowBase.sol";
import {ContractWallet, RevertingWallet} from "./support/Wallets.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Escrow, IAgentWallets} from "../src/escrow/Escrow.sol";
import {EscrowPolicy} from "../src/escrow/EscrowPolicy.sol";
import {IEscrow} from "../src/escrow/IEscrow.sol";
import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

/// @notice What the escrow refuses, and that it says why.
contract EscrowRefusalsTest is EscrowBase {
    function refusesTerms(IEscrow.Terms memory t, bytes memory why) private {
        vm.prank(t.creator);
        vm.expectRevert(why);
        escrow.publish(t);
    }

    function badTerms(string memory field) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IEscrow.BadTerms.selector, field);
    }

    function test_TermsThatCannotHoldAreRefusedByField() public {
        IEscrow.Terms memory t = terms();
        t.creator = address(0);
        refusesTerms(t, badTerms("creator"));
        t.creator = address(escrow);
        vm.expectRevert(badTerms("creator"));
        escrow.publishWithAuthorization(t, 0, START + 60, "");
        t = terms();
        t.approver = address(0);
        refusesTerms(t, badTerms("approver"));
        t = terms();
        t.arbitrator = address(0);
        refusesTerms(t, badTerms("arbitrator"));
        t.arbitrator = creator;
        refusesTerms(t, abi.encodeWithSelector(IEscrow.Conflict.selector, creator));
        t.arbitrator = approver;
        refusesTerms(t, abi.encodeWithSelector(IEscrow.Conflict.selector, approver));
        t = terms();
        t.reward = 0;
        refusesTerms(t, badTerms("reward"));
        t = terms();
        t.creatorBond = 1e6 - 1;
        refusesTerms(t, badTerms("creatorBond"));
        t = terms();
        t.workerBond = 1e6 - 1;
        refusesTerms(t, badTerms("workerBond"));
        t = terms();
        t.feeBps = 249;
        refusesTerms(t, badTerms("feeBps"));
        t = terms();
        t.forfeitBps = 2499;
        refusesTerms(t, badTerms("forfeitBps"));
    }

    function test_TimesThatCannotHoldAreRefusedByField() public {
        IEscrow.Terms memory t = terms();
        t.deliveryDeadline = START;
        refusesTerms(t, badTerms("deliveryDeadline"));
        t.deliveryDeadline = START + 365 days + 1;
        refusesTerms(t, badTerms("deliveryDeadline"));
        t = terms();
        t.reviewWindow = WINDOW - 1;
        refusesTerms(t, badTerms("reviewWindow"));
        t.reviewWindow = 14 days + 1;
        refusesTerms(t, badTerms("reviewWindow"));
        t = terms();
        t.disputeWindow = WINDOW - 1;
        refusesTerms(t, badTerms("disputeWindow"));
        t.disputeWindow = 14 days + 1;
        refusesTerms(t, badTerms("disputeWindow"));
        t = terms();
        t.arbitrationWindow = 12 * WINDOW - 1;
        refusesTerms(t, badTerms("arbitrationWindow"));
        t.arbitrationWindow = 14 days + 1;
        refusesTerms(t, badTerms("arbitrationWindow"));
    }

    function test_TheLongestTimesAreAccepted() public {
        IEscrow.Terms memory t = terms();
        t.deliveryDeadline = START + 365 days;
        (t.reviewWindow, t.disputeWindow, t.arbitrationWindow) = (14 days, 14 days, 14 days);
        published(t);
    }

    function test_OnlyTheCreatorPublishesOutOfItsAllowance() public {
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NotActor.selector, address(this)));
        escrow.publish(terms());
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NotActor.selector, address(this)));
        escrow.publishWithPermit(terms(), 0, 0, 0, 0);
    }

    function test_AJobIsPublishedOnce() public {
        bytes32 id = published();
        refusesTerms(terms(), abi.encodeWithSelector(IEscrow.JobExists.selector, id));
        vm.prank(creator);
        escrow.cancel(id);
        refusesTerms(terms(), abi.encodeWithSelector(IEscrow.JobExists.selector, id));
    }

    function test_AJobsIdBelongsToOneChainAndOneContract() public {
        bytes32 id = escrow.jobIdOf(terms());
        Escrow twin = new Escrow(
            address(this), treasury, IAgentWallets(address(identity)), EscrowPolicy.Minimums(WINDOW, WINDOW, WINDOW)
        );
        yes(twin.jobIdOf(terms()) != id, "another contract");
        vm.chainId(block.chainid + 1);
        yes(escrow.jobIdOf(terms()) != id, "another chain");
    }

    function test_TheCreatorsAgentMustHaveItsWallet() public {
        IEscrow.Terms memory t = terms();
        t.creatorAgentId = 1; // the worker's
        refusesTerms(t, abi.encodeWithSelector(IEscrow.WalletMismatch.selector, 1, creator));
        vm.prank(creator);
        t.creatorAgentId = identity.register();
        published(t);
    }

    function test_AnUnlistedTokenIsRefused() public {
        escrow.setToken(IERC20(address(usd)), EscrowPolicy.TokenRule(false, 0, 0));
        refusesTerms(terms(), abi.encodeWithSelector(IEscrow.TokenNotListed.selector, address(usd)));
    }

    function test_NothingIsPublishedDuringAPause() public {
        escrow.pause();
        refusesTerms(terms(), abi.encodeWithSelector(IEscrow.PublishingPaused.selector));
        escrow.resume();
        published();
    }

    function refusesSelection(IEscrow.Selection memory s, bytes memory why) private {
        bytes memory signature = selectionSignature(s);
        vm.expectRevert(why);
        escrow.select(s, signature);
        vm.prank(s.worker);
        vm.expectRevert(why);
        escrow.activate(s, signature);
    }

    function test_SelectionsThatCannotHoldAreRefused() public {
        bytes32 id = published();
        IEscrow.Selection memory s = selection(id);
        s.activateBy = START;
        refusesSelection(s, abi.encodeWithSelector(IEscrow.TooLate.selector, START));
        s.activateBy = START + 7 days + 1;
        refusesSelection(s, abi.encodeWithSelector(IEscrow.BadSelection.selector, "activateBy"));
        s = selection(id);
        s.nonce = 0;
        refusesSelection(s, abi.encodeWithSelector(IEscrow.BadSelection.selector, "nonce"));
        s = selection(id);
        s.worker = address(0);
        vm.prank(creator);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.BadSelection.selector, "worker"));
        escrow.select(s, "");
        s.worker = address(escrow);
        vm.prank(creator);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.BadSelection.selector, "worker"));
        escrow.select(s, "");
        s.worker = creator;
        refusesSelection(s, abi.encodeWithSelector(IEscrow.Conflict.selector, creator));
        s.worker = approver;
        refusesSelection(s, abi.encodeWithSelector(IEscrow.Conflict.selector, approver));
        s.worker = arbitrator;
        refusesSelection(s, abi.encodeWithSelector(IEscrow.Conflict.selector, arbitrator));
        s = selection(id);
        s.workerAgentId = 2;
        refusesSelection(s, abi.encodeWithSelector(IEscrow.WalletMismatch.selector, 2, worker));
        vm.warp(START + 7 days);
        refusesSelection(selection(id), abi.encodeWithSelector(IEscrow.TooLate.selector, START + 7 days));
    }

    function test_ASelectionNeedsTheCreatorsWordForExactlyIt() public {
        bytes32 id = published();
        IEscrow.Selection memory s = selection(id);
        bytes memory signature = selectionSignature(s);
        s.activateBy++;
        bytes memory why = abi.encodeWithSelector(IEscrow.BadSignature.selector);
        vm.expectRevert(why);
        escrow.select(s, signature);
        s.activateBy--;
        bytes memory foreign = signed(WORKER_KEY, selectionDigest(s, block.chainid, address(escrow)));
        vm.expectRevert(why);
        escrow.select(s, foreign);
        bytes memory otherChain = signed(CREATOR_KEY, selectionDigest(s, block.chainid + 1, address(escrow)));
        vm.expectRevert(why);
        escrow.select(s, otherChain);
        bytes memory otherContract = signed(CREATOR_KEY, selectionDigest(s, block.chainid, address(usd)));
        vm.expectRevert(why);
        escrow.select(s, otherContract);
        vm.expectRevert(why);
        escrow.select(s, "");
    }

    function test_AnOldSelectionCannotComeBack() public {
        bytes32 id = published();
        IEscrow.Selection memory first = selection(id);
        first.activateBy = START + 5 days;
        bytes memory signature = selectionSignature(first);
        IEscrow.Selection memory second = selection(id);
        second.nonce = 2;
        vm.prank(creator);
        escrow.select(second, "");
        vm.warp(second.activateBy);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.BadSelection.selector, "nonce"));
        escrow.select(first, signature);
        vm.prank(worker);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.TooLate.selector, second.activateBy));
        escrow.activate(second, "");
    }

    function test_AContractCanBeTheCreatorByERC1271AndOneThatRevertsCannot() public {
        address wallet = address(new ContractWallet(creator));
        IEscrow.Terms memory t = terms();
        t.creator = wallet;
        usd.mint(wallet, PURSE);
        allow(address(usd), wallet);
        vm.prank(wallet);
        bytes32 id = escrow.publish(t);
        IEscrow.Selection memory s = selection(id);
        bytes memory signature = selectionSignature(s);
        vm.etch(wallet, address(new RevertingWallet()).code);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.BadSignature.selector));
        escrow.select(s, signature);
        vm.etch(wallet, address(new ContractWallet(creator)).code);
        escrow.select(s, signature);
        eq(escrow.job(id).worker, worker, "selected");
    }

    function test_AKeyWhoseAccountCarriesForeignCodeStillSigns() public {
        bytes32 id = published();
        IEscrow.Selection memory s = selection(id);
        bytes memory signature = selectionSignature(s);
        vm.etch(creator, address(new RevertingWallet()).code);
        escrow.select(s, signature);
        eq(escrow.job(id).worker, worker, "selected");
    }

    function test_OnlyTheWorkerActivatesOutOfItsAllowance() public {
        IEscrow.Selection memory s = selection(published());
        bytes memory signature = selectionSignature(s);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NotActor.selector, address(this)));
        escrow.activate(s, signature);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NotActor.selector, address(this)));
        escrow.activateWithPermit(s, signature, 0, 0, 0, 0);
    }

    function test_AWorkerWhoseAgentLostItsWalletCannotActivate() public {
        IEscrow.Selection memory s = selection(published());
        vm.prank(creator);
        escrow.select(s, "");
        vm.prank(worker);
        identity.unsetAgentWallet(1);
        vm.prank(worker);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.WalletMismatch.selector, 1, worker));
        escrow.activate(s, "");
    }

    function test_AJobCannotBeCancelledOnceItIsActive() public {
        bytes32 id = activated();
        vm.prank(creator);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.WrongStatus.selector, id, IEscrow.Status.Active));
        escrow.cancel(id);
    }

    // Every action in every status by everyone: it is the actor's turn, or nothing happens.
    function test_EachStatusHasItsActorAndItsActionsAndNoOthers() public {
        for (uint8 s = 0; s <= uint8(IEscrow.Status.Expired); s++) {
            uint256 before = vm.snapshotState();
            bytes32 id = reached(IEscrow.Status(s));
            uint256 there = vm.snapshotState();
            for (uint8 a = 0; a < 6; a++) {
                for (uint8 who = 0; who < 5; who++) {
                    bool may = allowed(IEscrow.Status(s), a, who);
                    vm.prank(person(who));
                    (bool ok,) = address(escrow).call(action(a, id));
                    if (ok != may) revert Differs("allowed", uint256(s) * 100 + a * 10 + who, may ? 1 : 0);
                    vm.revertToState(there);
                }
            }
            vm.revertToState(before);
        }
    }

    function person(uint8 who) private view returns (address) {
        return [creator, approver, worker, arbitrator, other][who];
    }

    function action(uint8 a, bytes32 id) private pure returns (bytes memory) {
        if (a == 0) return abi.encodeCall(IEscrow.submit, (id, 0));
        if (a == 1) return abi.encodeCall(IEscrow.approve, (id));
        if (a == 2) return abi.encodeCall(IEscrow.reject, (id, IEscrow.Violation.None, 0));
        if (a == 3) return abi.encodeCall(IEscrow.dispute, (id, 0));
        if (a == 4) return abi.encodeCall(IEscrow.rule, (id, true, 0));
        return abi.encodeCall(IEscrow.cancel, (id));
    }

    function allowed(IEscrow.Status s, uint8 a, uint8 who) private pure returns (bool) {
        if (s == IEscrow.Status.Open) return a == 5 && who == 0;
        if (s == IEscrow.Status.Active) return a == 0 && who == 2;
        if (s == IEscrow.Status.Submitted) return (a == 1 || a == 2) && who == 1;
        if (s == IEscrow.Status.RejectedPending) return a == 3 && who == 2;
        if (s == IEscrow.Status.Disputed) return a == 4 && who == 3;
        return false;
    }

    function reached(IEscrow.Status s) private returns (bytes32 id) {
        if (s == IEscrow.Status.None) return escrow.jobIdOf(terms());
        if (s == IEscrow.Status.Open) return published();
        if (s == IEscrow.Status.Active) return activated();
        if (s == IEscrow.Status.Submitted) return submitted();
        if (s == IEscrow.Status.RejectedPending) return rejected(IEscrow.Violation.None);
        if (s == IEscrow.Status.Disputed) return disputed(IEscrow.Violation.None);
        if (s == IEscrow.Status.Completed) {
            id = submitted();
            vm.prank(approver);
            escrow.approve(id);
        } else if (s == IEscrow.Status.Rejected) {
            id = disputed(IEscrow.Violation.None);
            vm.prank(arbitrator);
            escrow.rule(id, false, 0);
        } else if (s == IEscrow.Status.Cancelled) {
            id = published();
            vm.prank(creator);
            escrow.cancel(id);
        } else {
            id = activated();
            vm.warp(START + 7 days);
            escrow.settle(id);
        }
        yes(status(id) == s, "not reached");
    }

    function test_WhatIsFinalOrUnknownCannotBeSettled() public {
        vm.expectRevert(abi.encodeWithSelector(IEscrow.WrongStatus.selector, bytes32(0), IEscrow.Status.None));
        escrow.settle(0);
        bytes32 id = reached(IEscrow.Status.Completed);
        vm.warp(START + 30 days);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.WrongStatus.selector, id, IEscrow.Status.Completed));
        escrow.settle(id);
    }

    function test_SettingsHaveBounds() public {
        bytes4 bad = IEscrow.BadSetting.selector;
        vm.expectRevert(abi.encodeWithSelector(bad, "feeBps"));
        escrow.setFees(1001, 2500);
        vm.expectRevert(abi.encodeWithSelector(bad, "forfeitBps"));
        escrow.setFees(250, 5001);
        vm.expectRevert(abi.encodeWithSelector(bad, "treasury"));
        escrow.setTreasury(address(0));
        vm.expectRevert(abi.encodeWithSelector(bad, "treasury"));
        escrow.setTreasury(address(escrow));
        vm.expectRevert(abi.encodeWithSelector(bad, "token"));
        escrow.setToken(IERC20(other), EscrowPolicy.TokenRule(true, 0, 0));
        vm.expectRevert(abi.encodeWithSelector(bad, "paused"));
        escrow.resume();
        escrow.pause();
        vm.expectRevert(abi.encodeWithSelector(bad, "paused"));
        escrow.pause();
        IAgentWallets wallets = IAgentWallets(address(identity));
        vm.expectRevert(abi.encodeWithSelector(bad, "minimums.review"));
        new Escrow(address(this), treasury, wallets, EscrowPolicy.Minimums(0, 1, 1));
        vm.expectRevert(abi.encodeWithSelector(bad, "minimums.dispute"));
        new Escrow(address(this), treasury, wallets, EscrowPolicy.Minimums(1, 0, 1));
        vm.expectRevert(abi.encodeWithSelector(bad, "minimums.arbitration"));
        new Escrow(address(this), treasury, wallets, EscrowPolicy.Minimums(1, 1, 14 days + 1));
    }

    function test_OnlyTheOwnerSets() public {
        bytes memory why = abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, other);
        vm.prank(other);
        vm.expectRevert(why);
        escrow.setFees(0, 0);
        vm.prank(other);
        vm.expectRevert(why);
        escrow.setTreasury(other);
        vm.prank(other);
        vm.expectRevert(why);
        escrow.setToken(IERC20(address(usd)), EscrowPolicy.TokenRule(true, 0, 0));
        vm.prank(other);
        vm.expectRevert(why);
        escrow.pause();
        vm.prank(other);
        vm.expectRevert(why);
        escrow.resume();
    }

    function test_OwnershipIsHandedOverInTwoSteps() public {
        escrow.transferOwnership(other);
        eq(escrow.owner(), address(this), "still");
        vm.prank(other);
        escrow.acceptOwnership();
        eq(escrow.owner(), other, "now");
    }
}
