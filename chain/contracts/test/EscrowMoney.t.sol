// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EscrowBase} from "./support/EscrowBase.sol";
import {HostileToken, SilentToken} from "./support/Tokens.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {EscrowMoney} from "../src/escrow/EscrowMoney.sol";
import {IEscrow} from "../src/escrow/IEscrow.sol";

/// @notice Tokens and receivers that do not play along.
contract EscrowMoneyTest is EscrowBase {
    HostileToken internal host;

    function setUp() public override {
        super.setUp();
        host = new HostileToken();
        list(address(host));
        host.mint(creator, PURSE);
        host.mint(worker, PURSE);
        allow(address(host), creator);
        allow(address(host), worker);
    }

    function hostile(uint256 salt) internal view returns (IEscrow.Terms memory t) {
        t = terms();
        t.token = IERC20(address(host));
        t.salt = bytes32(salt);
    }

    function owes(address owner, uint256 wantAmount, uint256 wantItems) internal view {
        (uint256 amount, uint256 items) = escrow.owed(owner, IERC20(address(host)));
        eq(amount, wantAmount, "owed");
        eq(items, wantItems, "owed items");
        yes(host.balanceOf(address(escrow)) >= escrow.locked(IERC20(address(host))), "covered");
    }

    function approve(bytes32 id) internal {
        vm.prank(approver);
        escrow.approve(id);
    }

    function test_AReceiverThatRefusesDoesNotHoldUpTheOthers() public {
        bytes32 id = submitted(hostile(1));
        host.setBlocked(worker, true);
        approve(id);
        owes(worker, 101_500_000, 1);
        eq(host.balanceOf(treasury), 2_500_000, "fee");
        eq(host.balanceOf(creator), PURSE - REWARD, "bond back");
        vm.expectRevert(abi.encodeWithSelector(IEscrow.StillRefused.selector, worker, address(host)));
        escrow.recover(IERC20(address(host)), worker, 10);
        host.setBlocked(worker, false);
        escrow.recover(IERC20(address(host)), worker, 10);
        owes(worker, 0, 0);
        eq(host.balanceOf(worker), PURSE + 97_500_000, "recovered");
        eq(escrow.locked(IERC20(address(host))), 0, "locked");
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NothingOwed.selector, worker, address(host)));
        escrow.recover(IERC20(address(host)), worker, 10);
    }

    function test_TheOwnerDrawsWhatIsOwedToAnotherAccount() public {
        bytes32 id = submitted(hostile(1));
        host.setBlocked(worker, true);
        approve(id);
        vm.prank(worker);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.Conflict.selector, address(escrow)));
        escrow.withdraw(IERC20(address(host)), address(escrow), 1);
        vm.prank(worker);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NothingOwed.selector, worker, address(host)));
        escrow.withdraw(IERC20(address(host)), other, 0);
        vm.expectEmit();
        emit IEscrow.PayoutRecovered(id, worker, 9, address(host), 101_500_000, other);
        vm.prank(worker);
        eq(escrow.withdraw(IERC20(address(host)), other, 1), 101_500_000, "drawn");
        owes(worker, 0, 0);
        eq(host.balanceOf(other), 101_500_000, "received");
        vm.prank(worker);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NothingOwed.selector, worker, address(host)));
        escrow.withdraw(IERC20(address(host)), other, 1);
    }

    function test_WhatIsOwedIsRecoveredOldestFirst() public {
        host.setBlocked(worker, false);
        bytes32[] memory ids = new bytes32[](100);
        for (uint256 i = 0; i < ids.length; i++) {
            IEscrow.Terms memory t = hostile(i);
            (t.reward, t.creatorBond, t.workerBond) = (uint128(i + 1), 1e6, 1e6);
            ids[i] = submitted(t);
            host.setBlocked(worker, true);
            approve(ids[i]);
            host.setBlocked(worker, false);
        }
        owes(worker, 100e6 + 5050 - host.balanceOf(treasury), 100);
        vm.expectEmit();
        emit IEscrow.PayoutRecovered(ids[0], worker, 8, address(host), 1e6 + 1, worker);
        vm.expectEmit();
        emit IEscrow.PayoutRecovered(ids[1], worker, 8, address(host), 1e6 + 2, worker);
        escrow.recover(IERC20(address(host)), worker, 2);
        (, uint256 items) = escrow.owed(worker, IERC20(address(host)));
        eq(items, 98, "items");
        escrow.recover(IERC20(address(host)), worker, 1000);
        owes(worker, 0, 0);
        eq(escrow.locked(IERC20(address(host))), 0, "locked");
    }

    function test_ARecoveryThatIsRefusedHalfWayKeepsWhatItGot() public {
        for (uint256 i = 0; i < 3; i++) {
            bytes32 id = submitted(hostile(i));
            host.setBlocked(worker, true);
            approve(id);
            host.setBlocked(worker, false);
        }
        // The token refuses the second payment, and stays usable.
        host.setReentry(address(host), abi.encodeCall(HostileToken.setBlocked, (worker, true)));
        escrow.recover(IERC20(address(host)), worker, 3);
        host.setFault(HostileToken.Fault.None);
        owes(worker, 2 * 101_500_000, 2);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.StillRefused.selector, worker, address(host)));
        escrow.recover(IERC20(address(host)), worker, 3);
        host.setBlocked(worker, false);
        escrow.recover(IERC20(address(host)), worker, 3);
        owes(worker, 0, 0);
    }

    function test_ATokenThatRevertsDefersEverything() public {
        defers(HostileToken.Fault.Reverts);
    }

    function test_ATokenThatReturnsFalseDefersEverything() public {
        defers(HostileToken.Fault.ReturnsFalse);
    }

    function test_ATokenThatMovesMoneyAndReturnsFalseHasMovedNothing() public {
        defers(HostileToken.Fault.MovesAndReturnsFalse);
    }

    function test_ATokenThatBurnsAllGasCannotStopASettlement() public {
        defers(HostileToken.Fault.BurnsAllGas);
    }

    function test_ATokenThatRevertsWithABombCannotStopASettlement() public {
        defers(HostileToken.Fault.ReturnsABomb);
    }

    function defers(HostileToken.Fault fault) private {
        bytes32 id = submitted(hostile(1));
        host.setFault(fault);
        vm.prank(approver);
        escrow.approve{gas: 2_000_000}(id);
        yes(status(id) == IEscrow.Status.Completed, "settled");
        owes(worker, 101_500_000, 1);
        owes(creator, CREATOR_BOND, 1);
        owes(treasury, 2_500_000, 1);
        eq(host.balanceOf(address(escrow)), REWARD + CREATOR_BOND + WORKER_BOND, "nothing moved");
        host.setFault(HostileToken.Fault.None);
        escrow.recover(IERC20(address(host)), worker, 1);
        escrow.recover(IERC20(address(host)), creator, 1);
        escrow.recover(IERC20(address(host)), treasury, 1);
        eq(host.balanceOf(address(escrow)), 0, "all out");
    }

    function test_ATokenThatReturnsNothingWorks() public {
        SilentToken silent = new SilentToken();
        list(address(silent));
        silent.mint(creator, PURSE);
        silent.mint(worker, PURSE);
        vm.prank(creator);
        silent.approve(address(escrow), PURSE);
        vm.prank(worker);
        silent.approve(address(escrow), PURSE);
        IEscrow.Terms memory t = terms();
        t.token = IERC20(address(silent));
        approve(submitted(t));
        eq(silent.balanceOf(worker), PURSE + 97_500_000, "paid");
    }

    function test_ATokenThatTakesAFeeOnTheWayInIsRefused() public {
        host.setFault(HostileToken.Fault.TakesAFee);
        vm.prank(creator);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.ShortTransfer.selector, 108e6, 108e6 - 1));
        escrow.publish(hostile(1));
        host.setFault(HostileToken.Fault.None);
        bytes32 id = published(hostile(1));
        host.setFault(HostileToken.Fault.TakesAFee);
        IEscrow.Selection memory s = selection(id);
        bytes memory signature = selectionSignature(s);
        vm.prank(worker);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.ShortTransfer.selector, 4e6, 4e6 - 1));
        escrow.activate(s, signature);
        owes(worker, 0, 0);
    }

    function test_NobodyComesBackInThroughAToken() public {
        bytes32 id = submitted(hostile(1));
        bytes32 late = activated(hostile(2));
        bytes[] memory calls = new bytes[](6);
        calls[0] = abi.encodeCall(IEscrow.settle, (late));
        calls[1] = abi.encodeCall(IEscrow.recover, (IERC20(address(host)), worker, 1));
        calls[2] = abi.encodeCall(IEscrow.withdraw, (IERC20(address(host)), worker, 1));
        calls[3] = abi.encodeCall(IEscrow.publish, (hostile(3)));
        calls[4] = abi.encodeCall(IEscrow.approve, (id));
        calls[5] = abi.encodeCall(EscrowMoney.payOut, (IERC20(address(host)), worker, 1));
        for (uint256 i = 0; i < calls.length; i++) {
            if (i > 0) id = submitted(hostile(10 + i));
            host.setReentry(address(escrow), calls[i]);
            approve(id);
            yes(host.tried() && !host.entered(), "kept out");
            host.setFault(HostileToken.Fault.None);
        }
    }

    function test_PayingOutIsForTheContractAlone() public {
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NotActor.selector, address(this)));
        escrow.payOut(IERC20(address(usd)), address(this), 1);
    }

    // A token that notices at once that it has too little gas leaves what there is for deferring the payout, which is
    // cheap where something is owed already.
    function testFuzz_WhoSettlesCannotStarveAPayout(uint256 gas) public {
        gas = within(gas, 60_000, 300_000);
        bytes32 id = submitted(hostile(1));
        host.setFault(HostileToken.Fault.Reverts);
        approve(id);
        host.setFault(HostileToken.Fault.None);
        id = submitted(hostile(2));
        host.setFault(HostileToken.Fault.NeedsGas);
        vm.warp(START + WINDOW);
        (bool ok,) = address(escrow).call{gas: gas}(abi.encodeCall(IEscrow.settle, (id)));
        yes(status(id) == (ok ? IEscrow.Status.Completed : IEscrow.Status.Submitted), "all or nothing");
        owes(worker, 101_500_000, 1);
        owes(creator, CREATOR_BOND, 1);
        owes(treasury, 2_500_000, 1);
    }

    function test_TooLittleGasIsNamed() public {
        bytes32 id = submitted();
        vm.prank(approver);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.MoreGas.selector, uint256(150_000) * 64 / 63 + 10_000));
        escrow.approve{gas: 150_000}(id);
    }

    function test_OneTokensMoneyNeverPaysForAnothers() public {
        submitted();
        bytes32 id = submitted(hostile(1));
        vm.prank(address(escrow));
        host.transfer(other, 50e6); // the token loses some by itself
        approve(id);
        eq(usd.balanceOf(address(escrow)), escrow.locked(IERC20(address(usd))), "the other token");
        (uint256 amount,) = escrow.owed(worker, IERC20(address(host)));
        eq(amount, 101_500_000, "what is short stays owed");
    }
}
