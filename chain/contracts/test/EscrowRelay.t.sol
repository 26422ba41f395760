// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EscrowBase} from "./support/EscrowBase.sol";
import {HostileToken} from "./support/Tokens.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Escrow, IAgentWallets} from "../src/escrow/Escrow.sol";
import {EscrowPolicy} from "../src/escrow/EscrowPolicy.sol";
import {EscrowMoney} from "../src/escrow/EscrowMoney.sol";
import {IEscrow} from "../src/escrow/IEscrow.sol";

/// @notice Calls that others send.
contract EscrowRelayTest is EscrowBase {
    uint256 internal constant APPROVER_KEY = 0xA9912;
    uint256 internal constant ARBITRATOR_KEY = 0xA4B12;

    function setUp() public override {
        super.setUp();
        approver = vm.addr(APPROVER_KEY);
        arbitrator = vm.addr(ARBITRATOR_KEY);
    }

    function call(uint256 key, bytes memory data, uint256 nonce) internal view returns (IEscrow.Call memory) {
        return IEscrow.Call(vm.addr(key), data, nonce, block.timestamp + 60);
    }

    function relay(uint256 key, bytes memory data, uint256 nonce) internal {
        IEscrow.Call memory c = call(key, data, nonce);
        bytes memory signature = signed(key, callDigest(c, block.chainid, address(escrow)));
        vm.prank(other);
        escrow.relay(c, signature);
    }

    function test_AWholeJobIsDoneByOneWhoSendsForAll() public {
        IEscrow.Terms memory t = terms();
        bytes32 id = escrow.jobIdOf(t);
        relay(CREATOR_KEY, abi.encodeCall(IEscrow.publish, (t)), 0);
        relay(CREATOR_KEY, abi.encodeCall(IEscrow.select, (selection(id), "")), 1);
        relay(WORKER_KEY, abi.encodeCall(IEscrow.activate, (selection(id), "")), 0);
        relay(WORKER_KEY, abi.encodeCall(IEscrow.submit, (id, keccak256("work"))), 257);
        relay(APPROVER_KEY, abi.encodeCall(IEscrow.reject, (id, IEscrow.Violation.Quality, 0)), type(uint256).max);
        relay(WORKER_KEY, abi.encodeCall(IEscrow.dispute, (id, 0)), 1);
        relay(ARBITRATOR_KEY, abi.encodeCall(IEscrow.rule, (id, true, 0)), 5);
        paid(id, IEscrow.Status.Completed, -int256(uint256(REWARD)), 97_500_000, 2_500_000, 0);
        yes(escrow.callNonceUsed(worker, 257), "used");
        yes(!escrow.callNonceUsed(worker, 256), "not used");
    }

    function test_ApprovalCancellationAndWithdrawalAreRelayedToo() public {
        bytes32 id = submitted();
        relay(APPROVER_KEY, abi.encodeCall(IEscrow.approve, (id)), 0);
        IEscrow.Terms memory t = terms();
        t.salt = 0;
        id = published(t);
        relay(CREATOR_KEY, abi.encodeCall(IEscrow.cancel, (id)), 0);
        IEscrow.Call memory c = call(WORKER_KEY, abi.encodeCall(IEscrow.withdraw, (IERC20(address(usd)), other, 1)), 0);
        bytes memory signature = signed(WORKER_KEY, callDigest(c, block.chainid, address(escrow)));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NothingOwed.selector, worker, address(usd)));
        escrow.relay(c, signature);
    }

    function test_ASignedCallIsGoodOnce() public {
        bytes32 id = activated();
        IEscrow.Call memory c = call(WORKER_KEY, abi.encodeCall(IEscrow.submit, (id, 0)), 7);
        bytes memory signature = signed(WORKER_KEY, callDigest(c, block.chainid, address(escrow)));
        escrow.relay(c, signature);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NonceReused.selector, 7));
        escrow.relay(c, signature);
    }

    function test_ASignedCallIsGoodOnOneChainAndAtOneContract() public {
        bytes32 id = activated();
        IEscrow.Call memory c = call(WORKER_KEY, abi.encodeCall(IEscrow.submit, (id, 0)), 7);
        bytes memory here = signed(WORKER_KEY, callDigest(c, block.chainid, address(escrow)));
        Escrow twin = new Escrow(
            address(this), treasury, IAgentWallets(address(identity)), EscrowPolicy.Minimums(WINDOW, WINDOW, WINDOW)
        );
        vm.expectRevert(abi.encodeWithSelector(IEscrow.BadSignature.selector));
        twin.relay(c, here);
        vm.chainId(block.chainid + 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.BadSignature.selector));
        escrow.relay(c, here);
    }

    function test_ASignedCallCannotBeChangedOrSentForAnother() public {
        bytes32 id = activated();
        IEscrow.Call memory c = call(WORKER_KEY, abi.encodeCall(IEscrow.submit, (id, 0)), 7);
        bytes memory signature = signed(WORKER_KEY, callDigest(c, block.chainid, address(escrow)));
        bytes memory why = abi.encodeWithSelector(IEscrow.BadSignature.selector);
        c.data = abi.encodeCall(IEscrow.submit, (id, keccak256("other work")));
        vm.expectRevert(why);
        escrow.relay(c, signature);
        c = call(WORKER_KEY, abi.encodeCall(IEscrow.submit, (id, 0)), 8);
        vm.expectRevert(why);
        escrow.relay(c, signature);
        c = call(WORKER_KEY, abi.encodeCall(IEscrow.submit, (id, 0)), 7);
        c.deadline++;
        vm.expectRevert(why);
        escrow.relay(c, signature);
        c.deadline--;
        c.signer = creator;
        vm.expectRevert(why);
        escrow.relay(c, signature);
        c.signer = address(0);
        vm.expectRevert(why);
        escrow.relay(c, "");
    }

    function test_ASignedCallEndsAtItsDeadlineAndCanBeTakenBackBefore() public {
        bytes32 id = activated();
        IEscrow.Call memory c = call(WORKER_KEY, abi.encodeCall(IEscrow.submit, (id, 0)), 7);
        bytes memory signature = signed(WORKER_KEY, callDigest(c, block.chainid, address(escrow)));
        vm.warp(c.deadline);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.TooLate.selector, c.deadline));
        escrow.relay(c, signature);
        vm.warp(c.deadline - 1);
        vm.prank(worker);
        escrow.cancelCall(7);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NonceReused.selector, 7));
        escrow.relay(c, signature);
    }

    function test_OnlyWhatPartiesDoIsRelayed() public {
        bytes[] memory calls = new bytes[](6);
        calls[0] = abi.encodeCall(EscrowMoney.payOut, (IERC20(address(usd)), other, 1));
        calls[1] = abi.encodeCall(EscrowPolicy.setTreasury, (other));
        calls[2] = abi.encodeCall(IEscrow.cancelCall, (1));
        calls[3] = abi.encodeCall(IEscrow.relay, (call(WORKER_KEY, "", 0), ""));
        calls[4] = hex"6161";
        calls[5] = "";
        submitted();
        for (uint256 i = 0; i < calls.length; i++) {
            IEscrow.Call memory c = call(WORKER_KEY, calls[i], i);
            bytes memory signature = signed(WORKER_KEY, callDigest(c, block.chainid, address(escrow)));
            vm.expectRevert(abi.encodeWithSelector(IEscrow.NotRelayable.selector, bytes4(calls[i])));
            escrow.relay(c, signature);
        }
    }

    function test_ARefusalComesBackAsItIsAndTheNonceStaysGood() public {
        bytes32 id = published();
        IEscrow.Call memory c = call(WORKER_KEY, abi.encodeCall(IEscrow.submit, (id, 0)), 7);
        bytes memory signature = signed(WORKER_KEY, callDigest(c, block.chainid, address(escrow)));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.WrongStatus.selector, id, IEscrow.Status.Open));
        escrow.relay(c, signature);
        yes(!escrow.callNonceUsed(worker, 7), "still good");
        activate(selection(id));
        escrow.relay(c, signature);
        yes(status(id) == IEscrow.Status.Submitted, "submitted");
    }

    function test_NoRelayWithinARelay() public {
        HostileToken host = new HostileToken();
        list(address(host));
        host.mint(creator, PURSE);
        host.mint(worker, PURSE);
        allow(address(host), creator);
        allow(address(host), worker);
        IEscrow.Terms memory t = terms();
        t.token = IERC20(address(host));
        bytes32 id = submitted(t);
        IEscrow.Call memory inner = call(WORKER_KEY, abi.encodeCall(IEscrow.withdraw, (t.token, other, 1)), 9);
        bytes memory signature = signed(WORKER_KEY, callDigest(inner, block.chainid, address(escrow)));
        host.setReentry(address(escrow), abi.encodeCall(IEscrow.relay, (inner, signature)));
        relay(APPROVER_KEY, abi.encodeCall(IEscrow.approve, (id)), 0);
        yes(host.tried() && !host.entered(), "kept out");
        yes(status(id) == IEscrow.Status.Completed, "settled");
        yes(!escrow.callNonceUsed(worker, 9), "still good");
    }
}
